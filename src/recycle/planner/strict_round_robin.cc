#include "recycle/planner/strict_round_robin.h"

#include <vector>

#include "recycle/planner/baselines.h"
#include "recycle/planner/list_scheduler.h"
#include "recycle/planner/portfolio.h"

namespace recycle {

StatusOr<TimedOrder> MakeStrictRoundRobin(const FlatJob& job) {
  const std::vector<std::int32_t> pipeline = RoundRobinAssignment(job);
  std::vector<Policy> policies = HeadPolicies();
  const std::span<const Policy> sample = GridSample(job);
  policies.insert(policies.end(), sample.begin(), sample.end());
  BestOrder best(job);
  Order order;
  for (const Policy& policy : policies) {
    if (best.AtBound()) break;
    if (IsRedundantSurrogate(job, policy.surrogate)) continue;
    ListScheduler scheduler(job, MakeSurrogate(job, policy.surrogate), pipeline);
    if (scheduler.Run(MakeRules(policy, job, scheduler.times()), order)) best.Offer(order);
  }
  if (best.best().has_value()) return *best.best();
  return absl::FailedPreconditionError(
      "no plan: strict round-robin deadlocks within the capacities; raise --memory-cap "
      "or capacity_bytes");
}

}  // namespace recycle
