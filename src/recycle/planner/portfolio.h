// Searches over list schedules: head policies, grid, hill climbs, for one job.
//
// Shared by whole jobs (adaptive.h) and by single-pipeline templates (virtual_pipelines.h).
// Deterministic; budgets count scheduler runs.
#ifndef RECYCLE_PLANNER_PORTFOLIO_H_
#define RECYCLE_PLANNER_PORTFOLIO_H_

#include <span>
#include <vector>

#include "recycle/planner/best_order.h"
#include "recycle/planner/hill_climb.h"
#include "recycle/planner/policy.h"

namespace recycle {

// The best recipe met for each affinity and surrogate: starts for hill climbs. Climbs from
// different surrogates reach different summits, which helps more than climbing one of them more
// often.
class RecipeBook {
 public:
  void Add(Recipe recipe);
  // By period, best first; ties in the order of addition.
  std::vector<Recipe> Sorted() const;
  bool empty() const { return recipes_.empty(); }

 private:
  std::vector<Recipe> recipes_;
};

// Offers the list schedule of every policy to `best` and its recipe to `book`, until one reaches
// the bound.
void TryPolicies(const FlatJob& job, Affinity affinity, std::span<const Policy> policies,
                 BestOrder& best, RecipeBook& book);

// Climbs a little from every recipe of the book, then longer from the best four, then longest from
// the best one; adds what it finds to the book.
void ClimbFromAll(const FlatJob& job, BestOrder& best, RecipeBook& book);

// How many scheduler runs a climb over `job` may take: 600 up to 10,000 actions, then in proportion
// less, so that a search's wall time is about the same for every job.
int RunBudget(const FlatJob& job);

// The part of the grid a search over `job` tries: an eighth of its budget.
std::span<const Policy> GridSample(const FlatJob& job);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_PORTFOLIO_H_
