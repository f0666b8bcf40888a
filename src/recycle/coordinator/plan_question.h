// What the coordinator asks of whoever makes plans.
#ifndef RECYCLE_COORDINATOR_PLAN_QUESTION_H_
#define RECYCLE_COORDINATOR_PLAN_QUESTION_H_

#include <functional>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct PlanQuestion {
  std::vector<WorkerId> failed = {};  // dead places, ascending
  std::vector<SlowWorker> slow = {};  // among the live, ascending
  // What F, I and W take, one per stage: only how they compare counts (WithMeasured). Empty: what
  // the job has begun with.
  std::vector<MeasuredCosts> measured = {};
  bool operator==(const PlanQuestion&) const = default;
};

// Handed in by app so that the core knows no planner. Equal questions get equal plans.
using MakePlanFunction = std::function<StatusOr<Plan>(const PlanQuestion& question)>;

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_PLAN_QUESTION_H_
