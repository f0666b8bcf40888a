#include "recycle/planner/portfolio.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "recycle/planner/list_scheduler.h"

namespace recycle {

void RecipeBook::Add(Recipe recipe) {
  const auto same = std::find_if(recipes_.begin(), recipes_.end(), [&](const Recipe& known) {
    return known.affinity == recipe.affinity && known.policy.surrogate == recipe.policy.surrogate;
  });
  if (same == recipes_.end()) {
    recipes_.push_back(std::move(recipe));
  } else if (recipe.period < same->period) {
    *same = std::move(recipe);
  }
}

std::vector<Recipe> RecipeBook::Sorted() const {
  std::vector<Recipe> sorted = recipes_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Recipe& a, const Recipe& b) { return a.period < b.period; });
  return sorted;
}

void TryPolicies(const FlatJob& job, Affinity affinity, std::span<const Policy> policies,
                 OrderJudge& judge, RecipeBook& book) {
  std::array<std::unique_ptr<ListScheduler>, kNumSurrogates> schedulers;
  Order order;
  for (const Policy& policy : policies) {
    if (judge.AtBound()) return;
    if (IsRedundantSurrogate(job, policy.surrogate)) continue;
    auto& scheduler = schedulers[static_cast<std::size_t>(policy.surrogate)];
    if (scheduler == nullptr) {
      scheduler =
          std::make_unique<ListScheduler>(job, MakeSurrogate(job, policy.surrogate), affinity);
    }
    if (!scheduler->Run(MakeRules(policy, job, scheduler->times()), order)) continue;
    book.Add({.affinity = affinity,
              .policy = policy,
              .climbed = std::nullopt,
              .period = judge.Offer(order)});
  }
}

void ClimbFromAll(const FlatJob& job, int runs, OrderJudge& judge, RecipeBook& book) {
  constexpr std::size_t kLeaders = 2;
  const int first_runs = std::max(1, runs / 6);
  for (const Recipe& start : book.Sorted()) book.Add(HillClimb(job, start, first_runs, 0, judge));
  std::vector<Recipe> leaders = book.Sorted();
  leaders.resize(std::min(leaders.size(), kLeaders));
  for (const Recipe& start : leaders) book.Add(HillClimb(job, start, runs, 1, judge));
}

int RunBudget(std::size_t actions) {
  constexpr std::size_t kRuns = 600;
  constexpr std::size_t kActions = 10'000;
  return static_cast<int>(kRuns * kActions / std::max(actions, kActions));
}

std::span<const Policy> GridSample(int runs) {
  const std::span<const Policy> grid(GridPolicies());
  return grid.first(std::min(grid.size(), static_cast<std::size_t>(runs / 3)));
}

}  // namespace recycle
