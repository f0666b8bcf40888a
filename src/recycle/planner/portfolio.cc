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
                 BestOrder& best, RecipeBook& book) {
  std::array<std::unique_ptr<ListScheduler>, kNumSurrogates> schedulers;
  Order order;
  for (const Policy& policy : policies) {
    if (best.AtBound()) return;
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
              .period = best.Offer(order)});
  }
}

void ClimbFromAll(const FlatJob& job, BestOrder& best, RecipeBook& book) {
  struct Round {
    std::size_t starts;
    int runs;  // of each
  };
  const int runs = RunBudget(job);
  const Round rounds[] = {{book.Sorted().size(), runs / 12}, {4, runs / 3}, {1, 3 * runs}};
  std::uint64_t seed = 0;
  for (const Round& round : rounds) {
    std::vector<Recipe> starts = book.Sorted();
    starts.resize(std::min(starts.size(), round.starts));
    for (const Recipe& start : starts) {
      book.Add(HillClimb(job, start, std::max(1, round.runs), seed, best));
    }
    ++seed;
  }
}

int RunBudget(const FlatJob& job) {
  constexpr std::int64_t kRuns = 600;
  constexpr std::int64_t kActions = 10'000;
  const auto actions = static_cast<std::int64_t>(job.num_actions());
  return static_cast<int>(kRuns * kActions / std::max(actions, kActions));
}

std::span<const Policy> GridSample(const FlatJob& job) {
  const std::span<const Policy> grid(GridPolicies());
  return grid.first(static_cast<std::size_t>(RunBudget(job) / 8));
}

}  // namespace recycle
