#include "recycle/simulator/node_trace.h"

#include <fmt/format.h>

#include "recycle/simulator/text_lines.h"

namespace recycle {
namespace {

constexpr double kMillisecondsPerSecond = 1000;

// A name that ends in its number, so that one that was cut off in the middle shows.
bool IsNodeName(std::string_view name) {
  return !name.empty() && name.back() >= '0' && name.back() <= '9';
}

Status ReadLine(std::string_view line, TraceBuilder& builder) {
  const std::vector<std::string_view> fields = Fields(line);
  const bool known = fields.size() == 3 && (fields[1] == "add" || fields[1] == "remove");
  if (!known || !IsNodeName(fields[2])) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' must be time_ms,add|remove,nodeN, such as 60000,add,node7", line));
  }
  const std::optional<double> time_ms = NumberIn(fields[0]);
  if (!time_ms.has_value() || *time_ms < 0) {
    return absl::InvalidArgumentError(
        fmt::format("time '{}' must be a number of milliseconds, 0 or more", fields[0]));
  }
  const double time_s = *time_ms / kMillisecondsPerSecond;
  return fields[1] == "add" ? builder.Add(time_s, fields[2]) : builder.Remove(time_s, fields[2]);
}

}  // namespace

StatusOr<FailureTrace> ReadNodeTrace(std::string_view text) {
  TraceBuilder builder;
  RC_RETURN_IF_ERROR(
      ForEachLine(text, [&](std::string_view line) { return ReadLine(line, builder); }));
  if (builder.empty()) {
    return absl::InvalidArgumentError("line 1: the trace is empty; it must have an event");
  }
  return std::move(builder).Finish();
}

}  // namespace recycle
