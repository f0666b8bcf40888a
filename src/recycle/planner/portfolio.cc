#include "recycle/planner/portfolio.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "recycle/planner/list_scheduler.h"

namespace recycle {

std::optional<Recipe> TryPolicies(const FlatJob& job, Affinity affinity,
                                  std::span<const Policy> policies, BestOrder& best) {
  std::array<std::unique_ptr<ListScheduler>, kNumSurrogates> schedulers;
  std::optional<Recipe> found;
  Order order;
  for (const Policy& policy : policies) {
    if (best.AtBound()) break;
    if (IsRedundantSurrogate(job, policy.surrogate)) continue;
    auto& scheduler = schedulers[static_cast<std::size_t>(policy.surrogate)];
    if (scheduler == nullptr) {
      scheduler =
          std::make_unique<ListScheduler>(job, MakeSurrogate(job, policy.surrogate), affinity);
    }
    const DispatchRules rules = MakeRules(policy, job, scheduler->times());
    if (!scheduler->Run(rules, order)) continue;
    const Ticks period = best.Offer(order);
    if (!found.has_value() || period < found->period) {
      found = Recipe{
          .affinity = affinity, .surrogate = policy.surrogate, .rules = rules, .period = period};
    }
  }
  return found;
}

std::optional<Recipe> Better(std::optional<Recipe> a, std::optional<Recipe> b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  return b->period < a->period ? std::move(b) : std::move(a);
}

int RunBudget(const FlatJob& job) {
  constexpr std::int64_t kRuns = 600;
  constexpr std::int64_t kActions = 4'000;
  const auto actions = static_cast<std::int64_t>(job.num_actions());
  return static_cast<int>(kRuns * kActions / std::max(actions, kActions));
}

std::span<const Policy> GridSample(const FlatJob& job) {
  const std::span<const Policy> grid(GridPolicies());
  return grid.first(static_cast<std::size_t>(RunBudget(job) / 3));
}

}  // namespace recycle
