// Names of boundary tensors: what links carry under a frame's key is what ledgers and plans call a
// boundary tensor of an iteration. `micro_batches` is M everywhere.
//
// Pure.
#ifndef RECYCLE_EXECUTOR_BOUNDARY_H_
#define RECYCLE_EXECUTOR_BOUNDARY_H_

#include <map>
#include <optional>

#include "recycle/base/ids.h"
#include "recycle/comm/frame.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// The global index k*M + m of micro-batch m of pipeline k, and back.
int GlobalIndex(MicroBatch micro_batch, int micro_batches);
MicroBatch MicroBatchOf(int global_index, int micro_batches);

FrameKey ToFrameKey(const BoundaryTensor& tensor, int iteration, int micro_batches);
// `key` names an activation or a gradient.
BoundaryTensor ToBoundaryTensor(const FrameKey& key, int micro_batches);

// Where the results of one worker's F and I go under a plan: to whoever runs the action that
// consumes them. In a plan for the rest of an iteration that can be nobody.
class Routes {
 public:
  // For what a worker of `stage` sends.
  Routes(const Plan& plan, StageId stage);
  std::optional<WorkerId> ConsumerOf(const BoundaryTensor& tensor) const;

 private:
  std::map<BoundaryTensor, WorkerId> consumers_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_BOUNDARY_H_
