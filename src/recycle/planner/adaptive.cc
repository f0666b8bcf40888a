#include "recycle/planner/adaptive.h"

#include <utility>
#include <vector>

#include "recycle/planner/baselines.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/list_scheduler.h"

namespace recycle {
namespace {

void TryPolicies(const FlatJob& job, Affinity affinity, const std::vector<Policy>& policies,
                 BestOrder& best) {
  Order order;
  for (const Policy& policy : policies) {
    if (best.AtBound()) return;
    if (IsRedundantSurrogate(job, policy.surrogate)) continue;
    ListScheduler scheduler(job, MakeSurrogate(job, policy.surrogate), affinity);
    if (scheduler.Run(MakeRules(policy, job, scheduler.times()), order)) best.Offer(order);
  }
}

}  // namespace

BestOrder::BestOrder(const FlatJob& job) : job_(job), bound_(LowerBound(job)) {}

Ticks BestOrder::Offer(const Order& order) {
  const PlanFigures figures = EvaluateOrder(job_, order);
  if (best_.has_value() && figures.period > best_->figures.period) return figures.period;
  const int moved = MovedFromLiveHome(job_, order);
  const auto rank = [](const PlanFigures& f, int m) { return std::tuple(f.period, f.makespan, m); };
  if (!best_.has_value() || rank(figures, moved) < rank(best_->figures, best_->moved)) {
    best_ = TimedOrder{.order = order, .figures = figures, .moved = moved};
  }
  return figures.period;
}

StatusOr<TimedOrder> MakeAdaptive(const FlatJob& job, Affinity affinity, Effort effort) {
  BestOrder best(job);
  if (affinity != Affinity::kPool) {
    if (const StatusOr<Order> naive = MakeNaive(job); naive.ok()) best.Offer(*naive);
    TryPolicies(job, Affinity::kStrict, HeadPolicies(), best);
  }
  if (affinity != Affinity::kStrict) TryPolicies(job, Affinity::kPool, HeadPolicies(), best);
  if (!best.best().has_value()) {
    return absl::FailedPreconditionError(
        "no plan: every candidate deadlocks within the capacities (hint: raise capacity_bytes)");
  }
  return *best.best();
}

}  // namespace recycle
