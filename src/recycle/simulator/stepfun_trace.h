// Reader of StepFun's fault trace (stepfun-ai/InfiniteHBD-Trace, fault_trace.json): a JSON list of
// {"node_id", "event_time" in days, "event_type": "fault_start" | "fault_end", "fault_type"}.
//
// Faults of one server may nest: it is down while any of its faults is open, and a fault that ends
// at the moment it starts takes nothing down. The file lists only
// servers that ever failed; `num_nodes` gives the rest, which are up all the time. Every server is
// up at time 0. Pure.
#ifndef RECYCLE_SIMULATOR_STEPFUN_TRACE_H_
#define RECYCLE_SIMULATOR_STEPFUN_TRACE_H_

#include <optional>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/simulator/failure_trace.h"

namespace recycle {

// Error: kInvalidArgument with the line, the value and the rule; also for a `num_nodes` below the
// servers that the file names (absent: just those).
StatusOr<FailureTrace> ReadStepFunTrace(std::string_view text, std::optional<int> num_nodes);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_STEPFUN_TRACE_H_
