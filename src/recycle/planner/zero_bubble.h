// The handcrafted schedules of Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024),
// section 2, and of Qi et al., "Pipeline Parallelism with Controllable Memory" (2024).
//
// All run I as soon as it may and hold W's back to fill what would be bubbles. With F = I = W, no
// sends and enough micro-batches their staggered periods are 3M + PP - 1 (ZB-H1) and 3M (ZB-H2,
// ZB-V).
#ifndef RECYCLE_PLANNER_ZERO_BUBBLE_H_
#define RECYCLE_PLANNER_ZERO_BUBBLE_H_

#include "recycle/base/status.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"

namespace recycle {

// PP - i warm-up forwards at stage i, W's i micro-batches behind: at most PP held (1F1B's peak).
// `job` must be decoupled, fault-free, one stage per worker. Error: kFailedPrecondition if it does
// not fit.
StatusOr<Order> MakeZbH1(const FlatJob& job);

// 2(PP - i) - 1 warm-up forwards at stage i, W's 2i micro-batches behind: at most 2PP - 1 held.
StatusOr<Order> MakeZbH2(const FlatJob& job);

// Two stages a worker in placement v. A worker first fills its own memory with F's, going over to
// pairs of both stages' F's as its upper one is reached, and from then on runs each micro-batch's
// F, I and W of the upper stage at once; at most PP whole micro-batches held. `job` must be
// decoupled and fault-free.
StatusOr<Order> MakeZbV(const FlatJob& job);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_ZERO_BUBBLE_H_
