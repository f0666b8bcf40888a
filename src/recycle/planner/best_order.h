// The best of the orders a search comes by.
#ifndef RECYCLE_PLANNER_BEST_ORDER_H_
#define RECYCLE_PLANNER_BEST_ORDER_H_

#include <optional>

#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"

namespace recycle {

// An order with its figures.
struct TimedOrder {
  Order order;
  PlanFigures figures;
  int moved = 0;  // MovedFromLiveHome
};

// Keeps the best order it is offered: least period, then least makespan, then fewest micro-batches
// moved away from a live home, then the first. What it keeps has the names of home_names.h where
// they leave more micro-batches at home.
class BestOrder {
 public:
  // `job` must outlive this.
  explicit BestOrder(const FlatJob& job);

  // Times `order`, keeps it if it is better and returns its period.
  Ticks Offer(const Order& order);

  // True once an order's period equals the proven bound: no search can improve it.
  bool AtBound() const { return best_.has_value() && best_->figures.period <= bound_; }
  Ticks bound() const { return bound_; }
  const std::optional<TimedOrder>& best() const { return best_; }

 private:
  TimedOrder AtHome(const Order& order, const PlanFigures& figures) const;

  const FlatJob& job_;
  const Ticks bound_;
  std::optional<TimedOrder> best_;
};

}  // namespace recycle

#endif  // RECYCLE_PLANNER_BEST_ORDER_H_
