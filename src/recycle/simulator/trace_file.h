// Any trace that this program reads, told apart by its first line: node events
// (node_trace.h), StepFun's JSON (stepfun_trace.h), an availability curve (availability_curve.h).
//
//   StatusOr<FailureTrace> trace = ReadTrace(text, {.num_nodes = 400});
//
// Pure.
#ifndef RECYCLE_SIMULATOR_TRACE_FILE_H_
#define RECYCLE_SIMULATOR_TRACE_FILE_H_

#include <optional>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/simulator/availability_curve.h"
#include "recycle/simulator/failure_trace.h"

namespace recycle {

struct TraceOptions {
  std::optional<int> num_nodes = {};  // servers of StepFun's cluster; refused for other traces
  CurveOptions curve = {};
};

// Error: kInvalidArgument with the line, the value and the rule.
StatusOr<FailureTrace> ReadTrace(std::string_view text, const TraceOptions& options);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_TRACE_FILE_H_
