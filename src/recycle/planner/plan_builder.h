// From an order to a Plan: the request's job written out, schedules, step actions, exact figures,
// bound.
#ifndef RECYCLE_PLANNER_PLAN_BUILDER_H_
#define RECYCLE_PLANNER_PLAN_BUILDER_H_

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"
#include "recycle/planner/planner.h"

namespace recycle {

// The request's job as a plan without workers and figures.
Plan PlanWithoutWorkers(const PlanRequest& request);

// `job` is the request's; `order` is legal for it.
StatusOr<Plan> BuildPlan(const PlanRequest& request, const FlatJob& job, const Order& order);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_PLAN_BUILDER_H_
