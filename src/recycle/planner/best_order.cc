#include "recycle/planner/best_order.h"

#include <tuple>
#include <utility>

#include "recycle/planner/bounds.h"
#include "recycle/planner/home_names.h"

namespace recycle {

BestOrder::BestOrder(const FlatJob& job) : job_(job), bound_(LowerBound(job)) {}

Ticks BestOrder::Offer(const Order& order) {
  const PlanFigures figures = EvaluateOrder(job_, order);
  if (best_.has_value()) {
    const auto rank = [](const PlanFigures& f) { return std::tuple(f.period, f.makespan); };
    if (rank(figures) > rank(best_->figures)) return figures.period;
    if (rank(figures) == rank(best_->figures)) {
      if (best_->moved == 0) return figures.period;
      TimedOrder named = AtHome(order, figures);
      if (named.moved < best_->moved) best_ = std::move(named);
      return figures.period;
    }
  }
  best_ = AtHome(order, figures);
  return figures.period;
}

TimedOrder BestOrder::AtHome(const Order& order, const PlanFigures& figures) const {
  const int moved = MovedFromLiveHome(job_, order);
  if (moved > 0) {
    Order renamed = WithHomeNames(job_, order);
    const int moved_now = MovedFromLiveHome(job_, renamed);
    if (moved_now < moved) {
      return {.order = std::move(renamed), .figures = figures, .moved = moved_now};
    }
  }
  return {.order = order, .figures = figures, .moved = moved};
}

}  // namespace recycle
