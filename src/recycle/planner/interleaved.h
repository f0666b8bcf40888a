// Interleaved 1F1B: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM" (SC 2021), section 2.2. Each worker has v stages, PP apart; forwards
// and backwards go through them in groups of PP micro-batches. With F + B = 3 per worker, no sends,
// and M a multiple of PP, its length is 3M + 3(PP - 1)/v.
#ifndef RECYCLE_PLANNER_INTERLEAVED_H_
#define RECYCLE_PLANNER_INTERLEAVED_H_

#include "recycle/base/status.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"

namespace recycle {

// `job` must be coupled, fault-free and have v >= 2 interleaved stages per worker. Errors:
// kInvalidArgument if M is not a multiple of PP, kFailedPrecondition if it does not fit the
// capacities.
StatusOr<Order> MakeInterleaved(const FlatJob& job);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_INTERLEAVED_H_
