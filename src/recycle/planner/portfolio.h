// Searches over list schedules: head policies, grid, hill climb, for one job.
//
// Shared by whole jobs (adaptive.h) and by single-pipeline templates (virtual_pipelines.h).
// Deterministic; budgets count scheduler runs.
#ifndef RECYCLE_PLANNER_PORTFOLIO_H_
#define RECYCLE_PLANNER_PORTFOLIO_H_

#include <optional>
#include <span>

#include "recycle/planner/best_order.h"
#include "recycle/planner/hill_climb.h"
#include "recycle/planner/policy.h"

namespace recycle {

// Offers the list schedule of every policy to `best`, until one reaches the bound. Returns the best
// recipe of these policies, if any is legal.
std::optional<Recipe> TryPolicies(const FlatJob& job, Affinity affinity,
                                  std::span<const Policy> policies, BestOrder& best);

// The better of two recipes; the first on a tie.
std::optional<Recipe> Better(std::optional<Recipe> a, std::optional<Recipe> b);

// How many scheduler runs a search over `job` may take: 600 up to 4,000 actions, then in proportion
// less, so that a search's wall time is about the same for every job.
int RunBudget(const FlatJob& job);

// The part of the grid a search over `job` tries: a third of its budget.
std::span<const Policy> GridSample(const FlatJob& job);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_PORTFOLIO_H_
