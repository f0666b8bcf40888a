// The schedules ReCycle is measured against: GPipe, 1F1B and naive re-routing.
//
// All are coupled (B) and synchronous. GPipe (Huang et al., 2019) and 1F1B (PipeDream-flush,
// DAPPLE) are fault-free; naive re-routing is what a system without any of the paper's techniques
// does: an orphan goes to a fixed live peer, which squeezes it in as it comes.
#ifndef RECYCLE_PLANNER_BASELINES_H_
#define RECYCLE_PLANNER_BASELINES_H_

#include "recycle/base/status.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"

namespace recycle {

// All forwards, then all backwards in the same order. `job` must be coupled and fault-free.
// Error: kFailedPrecondition if M micro-batches do not fit a capacity.
StatusOr<Order> MakeGPipe(const FlatJob& job);

// Warm-up of min(M, PP - 1 - i) forwards at stage i, then one F, one B, then the remaining B's.
// `job` must be coupled and fault-free. Error: kFailedPrecondition if PP - i micro-batches do not
// fit.
StatusOr<Order> MakeOneFOneB(const FlatJob& job);

// Orphan number r of a stage (counted over dead pipelines in order, then m) goes to live peer r mod
// live; event-driven: an idle worker takes the ready B with the least (m, k), else the ready F with
// the least (m, k) if one more micro-batch fits. A coupled job gets B, a decoupled one I and W in
// its place, in the same order, so that it is never slower. One stage per worker. Error:
// kFailedPrecondition if it deadlocks within the capacities.
StatusOr<Order> MakeNaive(const FlatJob& job);

// A period that the order of MakeNaive cannot beat, without making it: what a plan that is as short
// is compared with at no cost. A worker's last I comes after all its other work, and then has its
// way back to stage 0.
Ticks NaiveLowerBound(const FlatJob& job);

// The assignment of MakeNaive, by slot.
std::vector<std::int32_t> RoundRobinAssignment(const FlatJob& job);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_BASELINES_H_
