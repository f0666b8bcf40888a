// From an order to a Plan: the request's job written out, schedules, step actions, exact figures,
// bound.
#ifndef RECYCLE_PLANNER_PLAN_BUILDER_H_
#define RECYCLE_PLANNER_PLAN_BUILDER_H_

#include "recycle/plan/plan.h"
#include "recycle/plan/timeline.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"
#include "recycle/planner/planner.h"

namespace recycle {

// The request's job as a plan without workers and figures.
Plan PlanWithoutWorkers(const PlanRequest& request);

// `job` is the request's; `order` is legal for it. `figures` are the order's, where they are known.
Plan BuildPlan(const PlanRequest& request, const FlatJob& job, const Order& order);
Plan BuildPlan(const PlanRequest& request, const FlatJob& job, const Order& order,
               const PlanFigures& figures);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_PLAN_BUILDER_H_
