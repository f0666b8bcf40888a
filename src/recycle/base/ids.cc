#include "recycle/base/ids.h"

#include <charconv>
#include <optional>
#include <utility>

namespace recycle {
namespace {

// Splits "a<separator>b" into two numbers of at least 0; nothing else may stand in the text.
std::optional<std::pair<int, int>> ParsePair(std::string_view text, char separator) {
  int first = 0;
  int second = 0;
  const char* const end = text.data() + text.size();
  const auto [middle, first_error] = std::from_chars(text.data(), end, first);
  if (first_error != std::errc() || middle == end || *middle != separator || first < 0) return {};
  const auto [last, second_error] = std::from_chars(middle + 1, end, second);
  if (second_error != std::errc() || last != end || second < 0) return {};
  return std::pair(first, second);
}

}  // namespace

std::string ToString(WorkerId worker) {
  return std::to_string(worker.pipeline.value()) + ":" + std::to_string(worker.stage.value());
}

std::string ToString(const std::vector<WorkerId>& workers) {
  std::string text;
  for (const WorkerId worker : workers) text += (text.empty() ? "" : " ") + ToString(worker);
  return text;
}

std::string ToString(MicroBatch micro_batch) {
  return std::to_string(micro_batch.home.value()) + "." + std::to_string(micro_batch.index);
}

std::ostream& operator<<(std::ostream& out, WorkerId worker) { return out << ToString(worker); }

std::ostream& operator<<(std::ostream& out, MicroBatch micro_batch) {
  return out << ToString(micro_batch);
}

StatusOr<WorkerId> ParseWorkerId(std::string_view text) {
  const auto pair = ParsePair(text, ':');
  if (!pair) {
    return absl::InvalidArgumentError("worker '" + std::string(text) +
                                      "' is not of the form PIPELINE:STAGE, e.g. 1:2");
  }
  return WorkerId{PipelineId(pair->first), StageId(pair->second)};
}

StatusOr<MicroBatch> ParseMicroBatch(std::string_view text) {
  const auto pair = ParsePair(text, '.');
  if (!pair) {
    return absl::InvalidArgumentError("micro-batch '" + std::string(text) +
                                      "' is not of the form PIPELINE.NUMBER, e.g. 1.5");
  }
  return MicroBatch{PipelineId(pair->first), pair->second};
}

}  // namespace recycle
