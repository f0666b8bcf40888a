// Failure normalization: where failures should be, and how to get them there.
//
// Only the number of failures per stage matters to a schedule, and the stage with most of them sets
// the pace, so failures are spread as evenly as possible. A surplus failure moves to another stage
// when a live worker there takes over the dead place, copying its parameters from a peer (the
// paper's "Failure Normalization"; at most one copy per move).
//
//   StatusOr<Plan> plan = PlanForFailureCount(request, 5);           // --failures 5
//   StatusOr<NormalizedPlan> plan = NormalizeFailures(request, 0);   // --failed ... --normalize
//
// Pure and deterministic.
#ifndef RECYCLE_PLANNER_NORMALIZATION_H_
#define RECYCLE_PLANNER_NORMALIZATION_H_

#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/planner.h"

namespace recycle {

// ceil(failures / columns): the least possible largest number of failures of a stage.
int LeastMaximum(const Parallelism& parallel, int failures);

// Placement *last*: floor(failures / PP) at every stage, one more at the last stages.
std::vector<int> LastPlacement(const Parallelism& parallel, int failures);

// The distinct placements worth planning: last; even (the extra ones evenly spaced); bound (each
// next failure where the stage's lower bound grows least, never above LeastMaximum; one stage per
// worker only).
std::vector<std::vector<int>> CandidatePlacements(const FlatJob& fault_free, int failures);

// The dead places of a placement: pipelines DP - 1, DP - 2, ... of every stage, ascending.
std::vector<WorkerId> PlacesOf(const Parallelism& parallel, const std::vector<int>& per_stage);

// The plan for `failures` failures wherever they do least harm; request.failed must be empty.
// Errors as MakePlan; kInvalidArgument if fewer than one worker per stage would be left.
StatusOr<Plan> PlanForFailureCount(const PlanRequest& request, int failures);

// One copy: live worker `copy.from` becomes `copy.to`.
struct NormalizationMove {
  CopyMove copy;
  double bytes = 0;          // parameters and optimizer state of the stage; 0 = unknown
  Ticks period_without = 0;  // with the moves before this one, by online planning
  Ticks period_with = 0;
};

struct NormalizedPlan {
  Plan plan;  // plan.copies has the moves, plan.failed the places that stay empty
  std::vector<NormalizationMove> moves;
};

// Spreads request.failed so that no stage has more than LeastMaximum + extra failures, with the
// least possible number of copies. Errors as MakePlan; kFailedPrecondition also if a stage has no
// live worker to copy from; kInvalidArgument if `extra` is negative.
StatusOr<NormalizedPlan> NormalizeFailures(const PlanRequest& request, int extra);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_NORMALIZATION_H_
