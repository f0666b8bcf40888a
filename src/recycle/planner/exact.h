// The optimum of small jobs by mixed-integer programming (COIN-OR CBC), to measure the other
// methods by.
//
// Two models: for equal durations and whole-number sends, up to 100 actions, a time-indexed one
// that asks for a period shorter than the best known until there is none; for any durations, up to
// 40 actions, the paper's disjunctive one: start times, an order binary for every pair of actions
// that may share a worker, assignment binaries, memory rows, makespan or period as the objective.
#ifndef RECYCLE_PLANNER_EXACT_H_
#define RECYCLE_PLANNER_EXACT_H_

#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/planner.h"

namespace recycle {

struct ExactResult {
  Plan plan;             // the best found; its lower_bound is the proven one
  bool optimal = false;  // proven: no plan has a shorter period
  std::string status;    // "optimal: ..." or "bound ... and best found ..."
};

// Starts from the adaptive plan, which is also the answer when nothing better is found in
// request.time_limit. Affinity::kStrict keeps micro-batches with their live home workers; else any
// live worker may take any. Errors: kInvalidArgument for jobs that are too large (the message has
// the size) or with virtual stages; else as MakePlan.
StatusOr<ExactResult> SolveExact(const PlanRequest& request, const Clock& clock = SystemClock());

}  // namespace recycle

#endif  // RECYCLE_PLANNER_EXACT_H_
