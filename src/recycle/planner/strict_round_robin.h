// Strict round-robin: naive re-routing's assignment, but decoupled and with the list scheduler's
// best policy. What re-ordering alone brings, without choosing who runs what.
#ifndef RECYCLE_PLANNER_STRICT_ROUND_ROBIN_H_
#define RECYCLE_PLANNER_STRICT_ROUND_ROBIN_H_

#include "recycle/base/status.h"
#include "recycle/planner/best_order.h"
#include "recycle/planner/flat_job.h"

namespace recycle {

// The best order by the head policies and a sample of the grid. Error: kFailedPrecondition if all
// of them deadlock within the capacities.
StatusOr<TimedOrder> MakeStrictRoundRobin(const FlatJob& job);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_STRICT_ROUND_ROBIN_H_
