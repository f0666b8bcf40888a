// The adaptive planner: a portfolio of schedules for any failures, of which the best is kept.
//
// Candidates, in order: naive re-routing (so that no plan is worse than it), list schedules by the
// head policies with micro-batches pooled or kept at home. The search stops as soon as a
// candidate's period equals the proven bound. Of equal periods the least makespan wins, then the
// fewest micro-batches moved away from a live home, then the first.
//
// Deterministic; budgets count scheduler runs.
#ifndef RECYCLE_PLANNER_ADAPTIVE_H_
#define RECYCLE_PLANNER_ADAPTIVE_H_

#include <optional>

#include "recycle/base/status.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"
#include "recycle/planner/planner.h"

namespace recycle {

// An order with its figures.
struct TimedOrder {
  Order order;
  PlanFigures figures;
  int moved = 0;  // MovedFromLiveHome
};

// Keeps the best order it is offered.
class BestOrder {
 public:
  explicit BestOrder(const FlatJob& job);

  // Times `order` and keeps a copy if it is better. Returns its period.
  Ticks Offer(const Order& order);

  bool AtBound() const { return best_.has_value() && best_->figures.period <= bound_; }
  Ticks bound() const { return bound_; }
  const std::optional<TimedOrder>& best() const { return best_; }

 private:
  const FlatJob& job_;
  const Ticks bound_;
  std::optional<TimedOrder> best_;
};

// Error: kFailedPrecondition if no candidate is legal within the capacities.
StatusOr<TimedOrder> MakeAdaptive(const FlatJob& job, Affinity affinity, Effort effort);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_ADAPTIVE_H_
