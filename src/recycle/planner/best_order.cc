#include "recycle/planner/best_order.h"

#include <tuple>

#include "recycle/planner/bounds.h"

namespace recycle {

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

}  // namespace recycle
