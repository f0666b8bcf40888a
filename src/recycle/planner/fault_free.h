// Fault-free schedules: every pipeline runs the same actions on its own micro-batches.
#ifndef RECYCLE_PLANNER_FAULT_FREE_H_
#define RECYCLE_PLANNER_FAULT_FREE_H_

#include <functional>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"

namespace recycle {

// An action of one pipeline: micro-batch number `m` of that pipeline at `stage`.
struct PipelineAction {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
  int m = 0;
};

// The actions of worker column `column`, in order.
using ColumnSequence = std::function<std::vector<PipelineAction>(int column)>;

// The whole job's order when each worker of a column runs `sequence(column)`. `name` is the method,
// for messages; the job must be fault-free. Error: kFailedPrecondition if a capacity is exceeded or
// if the sequences deadlock.
StatusOr<Order> MakeFaultFree(const FlatJob& job, std::string_view name,
                              const ColumnSequence& sequence);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_FAULT_FREE_H_
