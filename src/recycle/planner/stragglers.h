// Stragglers: keep a slow worker with less work, or plan without it?
//
// A plan gives every worker micro-batches by its speed; dropping the worker instead is a plan with
// one more failure. Both are planned, and the better one is the verdict, worker by worker, slowest
// first. A worker that would be given no work is advised to go.
#ifndef RECYCLE_PLANNER_STRAGGLERS_H_
#define RECYCLE_PLANNER_STRAGGLERS_H_

#include <optional>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/planner.h"

namespace recycle {

struct StragglerVerdict {
  WorkerId worker;
  double factor = 1;
  bool evict = false;
  Ticks period_kept = 0;
  std::optional<Ticks> period_evicted;  // absent: its stage would be left without a worker
  std::string reason;                   // one sentence with both periods
};

struct StragglerAdvice {
  Plan plan;  // with the advised evictions as failures
  std::vector<StragglerVerdict> verdicts;
};

// Judges every worker of request.slow with a factor above 1. Errors as MakePlan.
StatusOr<StragglerAdvice> JudgeStragglers(const PlanRequest& request);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_STRAGGLERS_H_
