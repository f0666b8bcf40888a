// The adaptive planner: a portfolio of schedules for any failures, of which the best is kept.
//
// Candidates: naive re-routing (at any effort, so that no plan is worse than it), virtual
// pipelines, list schedules by the head policies with micro-batches kept at home or pooled, the
// policy grid, the hill climb from the best of them. The search stops as soon as a period equals
// the proven bound.
//
// Deterministic; budgets count scheduler runs.
#ifndef RECYCLE_PLANNER_ADAPTIVE_H_
#define RECYCLE_PLANNER_ADAPTIVE_H_

#include "recycle/base/status.h"
#include "recycle/planner/best_order.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/planner.h"

namespace recycle {

// Error: kFailedPrecondition if no candidate is legal within the capacities.
StatusOr<TimedOrder> MakeAdaptive(const FlatJob& job, Affinity affinity, Effort effort);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_ADAPTIVE_H_
