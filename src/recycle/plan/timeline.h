// The exact evaluator: when every action of a plan starts and ends, in ticks.
//
// An action starts as soon as its worker has finished the one before and its inputs are there (F(i)
// needs F(i-1) + send_forward; I(i), B(i) need F(i) and the next stage's I (or B) + send_backward;
// W needs its I). Sends do not occupy the worker. A stage's step starts when all W (or B) of the
// stage are done and takes all_reduce + optimizer. Staggered: a stage's next iteration waits for
// that stage's own step. Synchronous: all stages wait for the slowest all-reduce, then each runs
// its optimizer. Pure; the cost is a few ns per action and pass.
#ifndef RECYCLE_PLAN_TIMELINE_H_
#define RECYCLE_PLAN_TIMELINE_H_

#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

struct TimedAction {
  Action action;
  Ticks start = 0;
  Ticks end = 0;
};

struct Timeline {
  // In the order of plan.workers, only actions with a micro-batch; from rest (iteration 0).
  std::vector<std::vector<TimedAction>> workers;
  std::vector<Ticks> step_end;  // per stage, from rest
  Ticks makespan = 0;           // end of the last step from rest
  Ticks period = 0;             // growth per iteration once iterations repeat
  bool certified = false;       // the bracket lo <= period <= hi closed with lo == hi
};

// Error: kFailedPrecondition if the order deadlocks (naming a blocked action), kInvalidArgument if
// an input of an action does not exist. Does not check memory: see Validate.
StatusOr<Timeline> ComputeTimeline(const Plan& plan);

struct PlanFigures {
  Ticks makespan = 0;
  Ticks period = 0;
  bool certified = false;
};

// Only the figures, without the per-action times: what a planner that times many candidates needs.
// Keeps about 24 bytes an action of working memory per thread.
StatusOr<PlanFigures> ComputeFigures(const Plan& plan);

}  // namespace recycle

#endif  // RECYCLE_PLAN_TIMELINE_H_
