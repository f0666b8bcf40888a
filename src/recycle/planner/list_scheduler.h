// The event-driven list scheduler: builds an order for given durations and dispatch rules.
//
// It simulates the job: whenever a worker is idle, the rules choose what it starts next among the
// forwards waiting at its stage, the I's whose gradients have arrived, and the W's it still owes.
// planner.md section 3 (docs/planner.md) states the rules P0..P3. One run costs 60-200 ns an
// action.
//
//   ListScheduler scheduler(job, MakeSurrogate(job, 1), Affinity::kPool);
//   Order order;
//   if (scheduler.Run(MakeRules(policy, job, scheduler.times()), order)) ...
//
// One stage per worker (virtual_stage_scheduler.h has the other case). Deterministic: integer
// times, ties by number. A scheduler keeps its scratch memory between runs; use one per thread.
#ifndef RECYCLE_PLANNER_LIST_SCHEDULER_H_
#define RECYCLE_PLANNER_LIST_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"
#include "recycle/planner/policy.h"

namespace recycle {

class ListScheduler {
 public:
  // `job` must outlive the scheduler. Affinity::kAny is a bug here: one kind at a time.
  ListScheduler(const FlatJob& job, SurrogateTimes times, Affinity affinity);
  // With every micro-batch on a given worker: `pipeline` by slot.
  ListScheduler(const FlatJob& job, SurrogateTimes times, std::vector<std::int32_t> pipeline);
  ~ListScheduler();
  ListScheduler(const ListScheduler&) = delete;
  ListScheduler& operator=(const ListScheduler&) = delete;

  const SurrogateTimes& times() const;

  // Fills `order`. False if these rules deadlock within the capacities: `order` is then partial.
  bool Run(const DispatchRules& rules, Order& order);

 private:
  class Simulation;
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace recycle

#endif  // RECYCLE_PLANNER_LIST_SCHEDULER_H_
