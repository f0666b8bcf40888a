// Time-indexed integer program: z[action, worker, time] = 1 if the action starts there and then.
// For jobs in which all actions take one common duration.
#ifndef RECYCLE_PLANNER_TIME_INDEXED_MODEL_H_
#define RECYCLE_PLANNER_TIME_INDEXED_MODEL_H_

#include <chrono>

#include "recycle/planner/exact_models.h"

namespace recycle {

// True if all actions take one common duration, of which sends and steps are multiples.
bool IsUnitTime(const FlatJob& job);

// Is there a plan of period at most `target`? Needs IsUnitTime.
ModelAnswer SolveTimeIndexed(const FlatJob& job, const Candidates& candidates, Ticks target,
                             std::chrono::milliseconds limit);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_TIME_INDEXED_MODEL_H_
