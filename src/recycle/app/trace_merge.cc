#include "recycle/app/trace_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "recycle/app/run_folder.h"
#include "recycle/base/file.h"

namespace recycle {
namespace {

// More than any worker writes in one iteration (a line is about 70 bytes).
constexpr std::uintmax_t kTailBytes = std::uintmax_t{4} << 20;

StatusOr<TraceSpan> ParseSpan(const std::string& line, WorkerId worker) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  try {
    TraceSpan span;
    span.worker = worker;
    RC_ASSIGN_OR_RETURN(span.action, ParseAction(json.at("a").get<std::string>()));
    span.iteration = json.at("it");
    span.attempt = json.at("att");
    span.generation = Generation(json.at("g"));
    span.start_us = json.at("s");
    span.end_us = json.at("e");
    span.regenerated = json.contains("rg");
    return span;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(error.what());
  }
}

// Calls `on_span` for the lines of `file` from where it stands; a last one without its newline is
// left out.
Status ReadSpans(std::ifstream& file, const std::string& path, WorkerId worker,
                 const std::function<void(const TraceSpan&)>& on_span) {
  std::string line;
  for (int number = 1; std::getline(file, line) && !file.eof(); ++number) {
    const StatusOr<TraceSpan> span = ParseSpan(line, worker);
    if (!span.ok()) {
      return absl::DataLossError(fmt::format("'{}': line {} is no action: {}", path, number,
                                             std::string(span.status().message())));
    }
    on_span(*span);
  }
  return OkStatus();
}

int Weight(ActionKind kind) {
  if (!HasMicroBatch(kind)) return 0;
  return kind == ActionKind::kBackward ? 2 : 1;
}

// What an action consists of; B does the work of I and W.
std::vector<ActionKind> Parts(ActionKind kind) {
  if (kind != ActionKind::kBackward) return {kind};
  return {ActionKind::kBackwardInput, ActionKind::kBackwardWeight};
}

using WorkKey = std::tuple<std::int32_t, StageId, MicroBatch, ActionKind>;

// The first generation that completed each piece of work of the iterations that were begun more
// than once. In a part those are the ones with a second attempt, and the last one: its worker may
// have died in it.
class FirstGenerations {
 public:
  void Add(const TraceSpan& span) {
    if (span.iteration != iteration_) {
      if (begun_again_) Keep();
      pending_.clear();
      begun_again_ = false;
      iteration_ = span.iteration;
    }
    begun_again_ = begun_again_ || span.attempt > 1;
    pending_.push_back(span);
  }
  void EndPart() {
    Keep();
    pending_.clear();
    iteration_ = 0;
    begun_again_ = false;
  }

  bool HasOlder(const TraceSpan& span) const {
    if (!HasMicroBatch(span.action.kind) || span.regenerated) return false;
    const std::vector<ActionKind> parts = Parts(span.action.kind);
    return std::any_of(parts.begin(), parts.end(), [&](ActionKind part) {
      const auto found = first_.find(Key(span, part));
      return found != first_.end() && found->second < span.generation;
    });
  }

 private:
  static WorkKey Key(const TraceSpan& span, ActionKind part) {
    return {span.iteration, span.action.stage, span.action.micro_batch, part};
  }
  void Keep() {
    for (const TraceSpan& span : pending_) {
      if (!HasMicroBatch(span.action.kind) || span.regenerated) continue;
      for (const ActionKind part : Parts(span.action.kind)) {
        const auto [entry, is_new] = first_.emplace(Key(span, part), span.generation);
        if (!is_new) entry->second = std::min(entry->second, span.generation);
      }
    }
  }

  std::int32_t iteration_ = 0;
  bool begun_again_ = false;
  std::vector<TraceSpan> pending_;  // of `iteration_`
  std::map<WorkKey, Generation> first_;
};

// The names Perfetto shows for processes and threads.
std::vector<std::string> NameEvents(const std::vector<TracePart>& parts) {
  std::vector<std::string> events;
  std::set<PipelineId> pipelines;
  for (const TracePart& part : parts) {
    const int pipeline = part.worker.pipeline.value();
    const int stage = part.worker.stage.value();
    if (pipelines.insert(part.worker.pipeline).second) {
      events.push_back(fmt::format(
          R"({{"name":"process_name","ph":"M","pid":{0},"tid":0,"args":{{"name":"pipeline {0}"}}}})",
          pipeline));
    }
    events.push_back(fmt::format(
        R"({{"name":"thread_name","ph":"M","pid":{0},"tid":{1},"args":{{"name":"stage {1}"}}}})",
        pipeline, stage));
  }
  return events;
}

std::string SpanEvent(const TraceSpan& span, std::int64_t origin_us, bool replayed) {
  const std::string action = ToString(span.action);
  return fmt::format(
      R"({{"name":"{}","cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"args":)"
      R"({{"action":"{}","iteration":{},"attempt":{},"generation":{},"replayed":{},"regenerated":{}}}}})",
      action, KindText(span.action.kind), span.start_us - origin_us, span.end_us - span.start_us,
      span.worker.pipeline.value(), span.worker.stage.value(), action, span.iteration, span.attempt,
      span.generation.value(), replayed, span.regenerated);
}

}  // namespace

Status ForEachSpan(const std::string& path, WorkerId worker,
                   const std::function<void(const TraceSpan&)>& on_span) {
  std::ifstream file(path, std::ios::binary);
  return ReadSpans(file, path, worker, on_span);
}

StatusOr<int> CountCompleted(const std::string& path, WorkerId worker, std::int32_t iteration) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return 0;
  std::ifstream file(path, std::ios::binary);
  if (size > kTailBytes) {
    file.seekg(static_cast<std::streamoff>(size - kTailBytes));
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');  // the rest of a line
  }
  int completed = 0;
  RC_RETURN_IF_ERROR(ReadSpans(file, path, worker, [&](const TraceSpan& span) {
    if (span.iteration == iteration && !span.regenerated) completed += Weight(span.action.kind);
  }));
  return completed;
}

Status MergeTrace(const std::vector<TracePart>& parts, const std::string& path) {
  FirstGenerations first;
  std::int64_t origin_us = std::numeric_limits<std::int64_t>::max();
  for (const TracePart& part : parts) {
    RC_RETURN_IF_ERROR(ForEachSpan(part.path, part.worker, [&](const TraceSpan& span) {
      first.Add(span);
      origin_us = std::min(origin_us, span.start_us);
    }));
    first.EndPart();
  }
  AtomicFile file(path);
  std::string_view separator = "\n";  // JSON has no comma after the last one
  const auto append = [&](const std::string& event) {
    file.Append(separator);
    file.Append(event);
    separator = ",\n";
  };
  file.Append(R"({"displayTimeUnit":"ms","traceEvents":[)");
  for (const std::string& event : NameEvents(parts)) append(event);
  for (const TracePart& part : parts) {
    RC_RETURN_IF_ERROR(ForEachSpan(part.path, part.worker, [&](const TraceSpan& span) {
      append(SpanEvent(span, origin_us, first.HasOlder(span)));
    }));
  }
  file.Append("\n]}\n");
  return file.Commit();
}

}  // namespace recycle
