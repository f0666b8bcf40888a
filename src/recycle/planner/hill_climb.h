// Improves dispatch rules by simulated annealing over their per-stage limits.
//
// Policies give every stage limits of one shape; where failures are uneven or capacities tight, a
// stage here and there wants one more or one less. A move changes one to three limits; a worse
// result is accepted within a threshold that shrinks to nothing (threshold accepting: integers
// only, no exp()).
//
// Deterministic for a seed.
#ifndef RECYCLE_PLANNER_HILL_CLIMB_H_
#define RECYCLE_PLANNER_HILL_CLIMB_H_

#include <cstdint>
#include <optional>

#include "recycle/planner/best_order.h"
#include "recycle/planner/list_scheduler.h"
#include "recycle/planner/policy.h"

namespace recycle {

// A list schedule that can be made again, bit for bit: who may run what, under which durations and
// rules.
struct Recipe {
  Affinity affinity = Affinity::kPool;
  Policy policy;
  std::optional<DispatchRules> climbed;  // rules the hill climb made out of the policy's
  Ticks period = 0;
};

// The rules of `recipe` for `job`.
DispatchRules RulesOf(const Recipe& recipe, const FlatJob& job, const SurrogateTimes& times);

// Climbs from `start`, `runs` scheduler runs long. Offers every order it comes by to `best` and
// returns the best recipe met (the start itself if nothing beats it). Stops at the bound of `best`.
Recipe HillClimb(const FlatJob& job, const Recipe& start, int runs, std::uint64_t seed,
                 BestOrder& best);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_HILL_CLIMB_H_
