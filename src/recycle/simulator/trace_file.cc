#include "recycle/simulator/trace_file.h"

#include <algorithm>
#include <vector>

#include "recycle/simulator/node_trace.h"
#include "recycle/simulator/stepfun_trace.h"
#include "recycle/simulator/text_lines.h"

namespace recycle {
namespace {

// Curves have two columns, or three of which the first is a date.
bool IsCurve(std::string_view line) {
  const std::vector<std::string_view> fields = Fields(line);
  if (fields.size() == 2) return NumberIn(fields[0]) && NumberIn(fields[1]);
  return fields.size() == 3 && fields[0].find('-', 1) != std::string_view::npos;
}

}  // namespace

StatusOr<FailureTrace> ReadTrace(std::string_view text, const TraceOptions& options) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const std::string_view body = first == std::string_view::npos ? "" : text.substr(first);
  if (!body.empty() && (body.front() == '[' || body.front() == '{')) {
    return ReadStepFunTrace(text, options.num_nodes);
  }
  if (options.num_nodes.has_value()) {
    return absl::InvalidArgumentError(
        "--nodes is for StepFun's JSON and random failures; this trace names its nodes itself");
  }
  if (IsCurve(body.substr(0, body.find('\n')))) return ReadAvailabilityCurve(text, options.curve);
  return ReadNodeTrace(text);
}

}  // namespace recycle
