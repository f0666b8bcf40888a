#include "recycle/planner/plan_builder.h"

#include <algorithm>
#include <string>

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

Plan BuildPlan(const PlanRequest& request, const FlatJob& job, const Order& order) {
  return BuildPlan(request, job, order, EvaluateOrder(job, order));
}

Plan BuildPlan(const PlanRequest& request, const FlatJob& job, const Order& order,
               const PlanFigures& figures) {
  Plan plan = PlanWithoutWorkers(request);
  plan.workers = ToSchedule(job, order);
  AddStepActions(plan);
  plan.makespan = figures.makespan;
  plan.period = figures.period;
  plan.lower_bound = LowerBound(job);
  return plan;
}

}  // namespace recycle
