// The gradients of a stage as two flat buffers: the local sum, into which the model's W actions add
// (its accumulators become views of it), and the reduced gradient R, the sum over all live peers
// divided by the global token count. The all-reduce is out of place: the local sum survives
// whatever happens to it. Sums may be of fixed point: then R does not depend on who ran what, to
// the bit. After it comes the commit round, in which the peers compare a checksum of
// R; only after it may anyone pass on, so that R is unique.
//
// R has two parts. Tied parameters are summed over the members of the first and the last stage in a
// group of its own, to which each member contributes its local sum once; all else is the stage's
// part, with which the last stage's results go. A part is held from the end of its all-reduce on,
// even if the commit round was cut short. Where some member holds a part, it is not summed again:
// those who lack it get it in a round of the same group (a hand-over).
//
//   GradientReduction gradients(model.parameters(), /*with_tied=*/group != nullptr);
//   RC_RETURN_IF_ERROR(gradients.Reduce(stage_group, tied_group, request));
//   optimizer.Step(step, gradients.reduced(), {});
//
// Belongs to the training thread.
// Source: rules c, e and h of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_GRADIENT_REDUCTION_H_
#define RECYCLE_EXECUTOR_GRADIENT_REDUCTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/reduce_group.h"
#include "recycle/nn/fixed_point_sums.h"
#include "recycle/nn/stage_model.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// What goes with the gradients of one iteration.
struct ReductionRequest {
  std::int64_t tokens = 1;            // of the global batch: the divisor
  std::span<const double> results;    // the last stage's own results; empty elsewhere
  std::span<double> reduced_results;  // their sum, a piece of the stage's part; same length
  // Runs between all-reduce and commit round, on what was reduced: fault injection.
  std::function<void(std::span<float> reduced)> before_commit = [](std::span<float>) {};
  bool commits = true;  // false: no commit round, to measure what it costs
};

class GradientReduction {
 public:
  // Replaces the accumulators of `parameters` by zeroed views of the local buffer. With `apart` the
  // parameters marked as tied go through the tied group, else through the stage's. `sums`: what the
  // accumulators are in, which must outlive this; nullptr: floats.
  GradientReduction(std::vector<Parameter>& parameters, bool apart, FixedPointSums* sums);

  // All-reduce and commit round of each part. Every peer calls it, also one that ran no
  // micro-batch. Fixed point: all peers' sums have the same quantum, which fits what was added; R
  // is no number at all if some of that was not finite. Errors: kAborted, kUnavailable; kDataLoss
  // when the peers' results differ even after being done again.
  Status Reduce(ReduceGroup& stage_group, ReduceGroup* tied_group, const ReductionRequest& request);

  // The round in which the members of `group` that lack `part` get it from the one that says
  // `is_source`, which holds it; then the commit round. Every member calls it. A member that holds
  // the part keeps it, whatever becomes of the round. `request.results` are not used. Errors as
  // Reduce.
  Status HandOver(ReduceGroup& group, ReducedPart part, bool is_source,
                  const ReductionRequest& request);

  bool Holds(ReducedPart part) const { return At(part).held; }
  // All of R.
  bool complete() const { return stage_.held && (tied_.held || tied_.size() == 0); }
  void Discard() { stage_.held = tied_.held = false; }

  // R, one span per parameter, in the order of construction. Holds what the last Reduce left.
  const std::vector<std::span<const float>>& reduced() const { return reduced_spans_; }

  // Sum of squares of R over the parameters, in double precision and in one order, so that peers
  // agree on every bit. `with_tied` = false leaves the tied ones out: another stage counts them.
  double SquaredNorm(bool with_tied) const;

 private:
  // A range of the buffers.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool held = false;
    std::size_t size() const { return end - begin; }
  };

  const Part& At(ReducedPart part) const { return part == ReducedPart::kTied ? tied_ : stage_; }
  Part& At(ReducedPart part) { return part == ReducedPart::kTied ? tied_ : stage_; }
  std::span<float> Reduced(ReducedPart part);
  Status Sum(ReduceGroup& group, ReducedPart part, const ReductionRequest& request);
  Status SumFloats(ReduceGroup& group, ReducedPart part, std::int64_t tokens);
  Status SumFixedPoint(ReduceGroup& group, ReducedPart part, std::int64_t tokens);
  Status Receive(ReduceGroup& group, ReducedPart part, bool is_source,
                 const ReductionRequest& request);
  // `round`, then the commit round, until all agree.
  Status UntilAgreed(ReduceGroup& group, ReducedPart part, const ReductionRequest& request,
                     const std::function<Status()>& round);

  FixedPointSums* const sums_;
  at::Tensor local_;
  std::vector<float> reduced_;
  std::vector<std::span<const float>> reduced_spans_;
  std::vector<bool> is_tied_;  // by parameter
  Part stage_;
  Part tied_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_GRADIENT_REDUCTION_H_
