// Improves dispatch rules by simulated annealing over their per-stage limits.
//
// Policies give every stage limits of one shape; where failures are uneven or capacities tight, a
// stage here and there wants one more or one less. A move changes one to three limits; a worse
// result is accepted within a threshold that shrinks to nothing (threshold accepting: integers
// only, no exp()).
//
// Deterministic for a seed. Not thread-safe on one scheduler.
#ifndef RECYCLE_PLANNER_HILL_CLIMB_H_
#define RECYCLE_PLANNER_HILL_CLIMB_H_

#include <cstdint>

#include "recycle/planner/best_order.h"
#include "recycle/planner/list_scheduler.h"
#include "recycle/planner/policy.h"

namespace recycle {

// A list schedule that can be made again: who may run what, under which durations and rules.
struct Recipe {
  Affinity affinity = Affinity::kPool;
  int surrogate = 0;
  DispatchRules rules;
  Ticks period = 0;
};

// Offers every order it comes by to `best` and returns the best recipe met (the start itself if
// nothing beats it). Stops at the bound of `best`.
Recipe HillClimb(const FlatJob& job, const Recipe& start, int runs, BestOrder& best);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_HILL_CLIMB_H_
