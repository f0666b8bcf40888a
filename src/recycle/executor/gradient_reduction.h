// The gradients of a stage as two flat buffers: the local sum, into which the model's W actions add
// (its accumulators become views of it), and the reduced gradient R, the sum over all live peers
// divided by the global token count. The all-reduce is out of place: the local sum survives
// whatever happens to it. After it comes the commit round, in which the peers compare a checksum of
// R; only after it may anyone pass on, so that R is unique.
//
// A tied parameter is summed over the members of the first and the last stage in a group of its
// own, to which each member contributes its local sum once.
//
//   GradientReduction gradients(model.parameters(), /*with_tied=*/group != nullptr);
//   RC_RETURN_IF_ERROR(gradients.Reduce(stage_group, tied_group, request));
//   optimizer.Step(step, gradients.reduced(), {});
//
// Belongs to the training thread.
#ifndef RECYCLE_EXECUTOR_GRADIENT_REDUCTION_H_
#define RECYCLE_EXECUTOR_GRADIENT_REDUCTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/reduce_group.h"
#include "recycle/nn/stage_model.h"

namespace recycle {

// What goes with the gradients of one iteration.
struct ReductionRequest {
  std::int64_t tokens = 1;              // of the global batch: the divisor
  std::span<const double> results;      // the last stage's own results; empty elsewhere
  std::span<double> reduced_results;    // their sum; same length
  std::function<void()> before_commit;  // between all-reduce and commit round: fault injection
};

class GradientReduction {
 public:
  // Replaces the accumulators of `parameters` by zeroed views of the local buffer. With `apart` the
  // parameters marked as tied go through the tied group, else through the stage's.
  GradientReduction(std::vector<Parameter>& parameters, bool apart);

  // All-reduce and commit round. Every peer calls it, also one that ran no micro-batch. Errors:
  // kAborted, kUnavailable; kDataLoss when the peers' results differ even after being done again.
  Status Reduce(ReduceGroup& stage_group, ReduceGroup* tied_group, const ReductionRequest& request);

  // Is R whole? True from the end of the last all-reduce on, even if the commit round after it was
  // cut short; false again from Discard or the next Reduce on.
  bool complete() const { return complete_; }
  void Discard() { complete_ = false; }

  // R, one span per parameter, in the order of construction. Holds what the last Reduce left.
  const std::vector<std::span<const float>>& reduced() const { return reduced_spans_; }

  // Sum of squares of R over the parameters, in double precision and in one order, so that peers
  // agree on every bit. `with_tied` = false leaves the tied ones out: another stage counts them.
  double SquaredNorm(bool with_tied) const;

 private:
  Status ReducePart(ReduceGroup& group, std::size_t begin, std::size_t end,
                    const ReductionRequest& request, bool with_results);

  at::Tensor local_;
  std::vector<float> reduced_;
  std::vector<std::span<const float>> reduced_spans_;
  std::vector<bool> tied_;
  std::size_t stage_part_ = 0;  // floats before the tied part
  bool complete_ = false;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_GRADIENT_REDUCTION_H_
