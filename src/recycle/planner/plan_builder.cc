#include "recycle/planner/plan_builder.h"

#include <algorithm>
#include <string>

#include "recycle/plan/timeline.h"
#include "recycle/planner/bounds.h"

namespace recycle {

Plan PlanWithoutWorkers(const PlanRequest& request) {
  Plan plan;
  plan.parallel = request.parallel;
  plan.micro_batches = request.micro_batches;
  plan.failed = request.failed;
  std::sort(plan.failed.begin(), plan.failed.end());
  plan.options = request.options;
  plan.costs = request.costs;
  plan.slow = request.slow;
  plan.method = std::string(MethodText(request.method));
  return plan;
}

StatusOr<Plan> BuildPlan(const PlanRequest& request, const FlatJob& job, const Order& order) {
  Plan plan = PlanWithoutWorkers(request);
  plan.workers = ToSchedule(job, order);
  AddStepActions(plan);
  RC_ASSIGN_OR_RETURN(const PlanFigures figures, ComputeFigures(plan));
  plan.makespan = figures.makespan;
  plan.period = figures.period;
  plan.lower_bound = LowerBound(job);
  return plan;
}

}  // namespace recycle
