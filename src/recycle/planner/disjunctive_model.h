// Disjunctive integer program, after the paper's MILP: continuous start times, an order binary for
// every pair of actions that may share a worker, assignment binaries, memory rows; the period is
// minimized.
#ifndef RECYCLE_PLANNER_DISJUNCTIVE_MODEL_H_
#define RECYCLE_PLANNER_DISJUNCTIVE_MODEL_H_

#include <chrono>

#include "recycle/planner/exact_models.h"

namespace recycle {

// The least period among plans of period at most `target`; none is known to be shorter than
// `bound`.
ModelAnswer SolveDisjunctive(const FlatJob& job, const Candidates& candidates, Ticks target,
                             Ticks bound, std::chrono::milliseconds limit);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_DISJUNCTIVE_MODEL_H_
