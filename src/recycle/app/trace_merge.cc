#include "recycle/app/trace_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

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
    return span;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(error.what());
  }
}

// The spans in `text`, which may begin and end inside a line.
StatusOr<std::vector<TraceSpan>> ParseSpans(std::string_view text, const std::string& path,
                                            WorkerId worker) {
  std::vector<TraceSpan> spans;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string_view::npos;
       begin = end + 1) {
    StatusOr<TraceSpan> span = ParseSpan(std::string(text.substr(begin, end - begin)), worker);
    if (!span.ok()) {
      return absl::DataLossError(fmt::format("'{}': line {} is no action: {}", path,
                                             spans.size() + 1,
                                             std::string(span.status().message())));
    }
    spans.push_back(*std::move(span));
  }
  return spans;
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

// The first generation that completed each piece of work.
std::map<WorkKey, Generation> FirstGenerations(const std::vector<TraceSpan>& spans) {
  std::map<WorkKey, Generation> first;
  for (const TraceSpan& span : spans) {
    if (!HasMicroBatch(span.action.kind)) continue;
    for (const ActionKind part : Parts(span.action.kind)) {
      const WorkKey key{span.iteration, span.action.stage, span.action.micro_batch, part};
      const auto [entry, is_new] = first.emplace(key, span.generation);
      if (!is_new) entry->second = std::min(entry->second, span.generation);
    }
  }
  return first;
}

bool IsReplayed(const TraceSpan& span, const std::map<WorkKey, Generation>& first) {
  if (!HasMicroBatch(span.action.kind)) return false;
  const std::vector<ActionKind> parts = Parts(span.action.kind);
  return std::any_of(parts.begin(), parts.end(), [&](ActionKind part) {
    return first.at({span.iteration, span.action.stage, span.action.micro_batch, part}) <
           span.generation;
  });
}

// The names Perfetto shows for processes and threads.
void AppendNames(const std::vector<TraceSpan>& spans, std::string& text) {
  std::set<WorkerId> workers;
  for (const TraceSpan& span : spans) workers.insert(span.worker);
  std::set<PipelineId> pipelines;
  for (const WorkerId worker : workers) {
    if (pipelines.insert(worker.pipeline).second) {
      text += fmt::format(
          R"({{"name":"process_name","ph":"M","pid":{0},"tid":0,"args":{{"name":"pipeline {0}"}}}},)"
          "\n",
          worker.pipeline.value());
    }
    text += fmt::format(
        R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"stage {}"}}}},)"
        "\n",
        worker.pipeline.value(), worker.stage.value(), worker.stage.value());
  }
}

}  // namespace

StatusOr<std::vector<TraceSpan>> ReadTracePart(const std::string& path, WorkerId worker) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ParseSpans(text, path, worker);
}

StatusOr<int> CountCompleted(const std::string& path, WorkerId worker, std::int32_t iteration) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (size > kTailBytes) {
    file.seekg(static_cast<std::streamoff>(size - kTailBytes));
    std::getline(file, text);  // the rest of a line
  }
  text.assign(std::istreambuf_iterator<char>(file), {});
  RC_ASSIGN_OR_RETURN(const std::vector<TraceSpan> spans, ParseSpans(text, path, worker));
  std::int32_t attempt = 0;
  int completed = 0;
  for (const TraceSpan& span : spans) {
    if (span.iteration != iteration || span.attempt < attempt) continue;
    if (span.attempt > attempt) completed = 0;
    attempt = span.attempt;
    completed += Weight(span.action.kind);
  }
  return completed;
}

std::string ToChromeTrace(const std::vector<TraceSpan>& spans) {
  const std::map<WorkKey, Generation> first = FirstGenerations(spans);
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const TraceSpan& span : spans) origin = std::min(origin, span.start_us);
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  AppendNames(spans, text);
  for (const TraceSpan& span : spans) {
    const std::string action = ToString(span.action);
    text += fmt::format(
        R"({{"name":"{}","cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"args":)"
        R"({{"action":"{}","iteration":{},"attempt":{},"generation":{},"replayed":{}}}}},)"
        "\n",
        action, KindText(span.action.kind), span.start_us - origin, span.end_us - span.start_us,
        span.worker.pipeline.value(), span.worker.stage.value(), action, span.iteration,
        span.attempt, span.generation.value(), IsReplayed(span, first));
  }
  if (!spans.empty()) text.erase(text.size() - 2, 1);  // JSON has no comma after the last one
  return text + "]}\n";
}

}  // namespace recycle
