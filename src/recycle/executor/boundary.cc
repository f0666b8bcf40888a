#include "recycle/executor/boundary.h"

#include "recycle/base/check.h"

namespace recycle {

int GlobalIndex(MicroBatch micro_batch, int micro_batches) {
  return micro_batch.home.value() * micro_batches + micro_batch.index;
}

MicroBatch MicroBatchOf(int global_index, int micro_batches) {
  return {PipelineId(global_index / micro_batches), global_index % micro_batches};
}

FrameKey ToFrameKey(const BoundaryTensor& tensor, int iteration, int micro_batches) {
  return {.iteration = iteration,
          .kind = tensor.kind == BoundaryKind::kActivation ? FrameKind::kActivation
                                                           : FrameKind::kGradient,
          .stage = tensor.stage,
          .micro_batch = GlobalIndex(tensor.micro_batch, micro_batches)};
}

BoundaryTensor ToBoundaryTensor(const FrameKey& key, int micro_batches) {
  RC_CHECK(IsBoundary(key.kind)) << ToString(key) << " is no boundary tensor";
  return {.kind = key.kind == FrameKind::kActivation ? BoundaryKind::kActivation
                                                     : BoundaryKind::kGradient,
          .stage = key.stage,
          .micro_batch = MicroBatchOf(key.micro_batch, micro_batches)};
}

Routes::Routes(const Plan& plan, StageId stage) {
  const StageId above(stage.value() + 1);
  const StageId below(stage.value() - 1);
  for (const WorkerSchedule& schedule : plan.workers) {
    for (const Action& action : schedule.actions) {
      if (action.stage == above && action.kind == ActionKind::kForward) {
        consumers_[{BoundaryKind::kActivation, above, action.micro_batch}] = schedule.worker;
      } else if (action.stage == below && (action.kind == ActionKind::kBackwardInput ||
                                           action.kind == ActionKind::kBackward)) {
        consumers_[{BoundaryKind::kGradient, below, action.micro_batch}] = schedule.worker;
      }
    }
  }
}

std::optional<WorkerId> Routes::ConsumerOf(const BoundaryTensor& tensor) const {
  const auto found = consumers_.find(tensor);
  if (found == consumers_.end()) return std::nullopt;
  return found->second;
}

}  // namespace recycle
