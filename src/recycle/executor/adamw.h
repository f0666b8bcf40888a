// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", ICLR 2019). Owns the moments of one stage; the parameters stay where they are.
//
//   AdamW optimizer(options.optimizer, {{value_span, /*decay=*/true}, ...});
//   optimizer.Step({.step = 1, .lr = 3e-4, .gradient_scale = 1.0}, gradients, {});
//
// Element by element in single precision, so equal parameters, moments and gradients stay equal to
// the bit on every peer. Not thread-safe.
#ifndef RECYCLE_EXECUTOR_ADAMW_H_
#define RECYCLE_EXECUTOR_ADAMW_H_

#include <functional>
#include <span>
#include <vector>

#include "recycle/executor/executor_options.h"

namespace recycle {

// A parameter to be stepped in place; the memory must outlive the optimizer.
struct SteppedParameter {
  std::span<float> value;
  bool decay = false;  // weight decay applies
};

// All numbers that belong to one parameter.
struct ParameterState {
  std::span<float> value;
  std::span<float> first;   // moment
  std::span<float> second;  // moment
};

struct AdamWStep {
  int step = 1;  // counts from 1: the bias correction
  double lr = 0;
  double gradient_scale = 1.0;  // every gradient is multiplied by it first: clipping
};

class AdamW {
 public:
  AdamW(const OptimizerOptions& options, std::vector<SteppedParameter> parameters);

  // One step. `gradients` has one span per parameter, of its length, in the order of construction;
  // if there are fewer, the parameters after them stay as they are (a copy that is not complete).
  // `after_parameter`, if any, is called after each with the number done: fault injection.
  void Step(const AdamWStep& step, const std::vector<std::span<const float>>& gradients,
            const std::function<void(int done)>& after_parameter);

  // The inverse of the `step` that was made last, but for rounding: values and moments before it,
  // out of those after it and the same gradients, as many as were stepped by. Second moments that
  // rounding would have below 0 are 0. The error: docs/RECOVERY.md, "Without memory".
  void Undo(const AdamWStep& step, const std::vector<std::span<const float>>& gradients);
  // The same of the values alone, which needs no gradient.
  void UndoValues(const AdamWStep& step);

  // Where the numbers of each parameter and its moments lie, in the order of construction.
  std::vector<ParameterState> state();

 private:
  struct Moments {
    std::vector<float> first;
    std::vector<float> second;
  };

  const OptimizerOptions options_;
  const std::vector<SteppedParameter> parameters_;
  std::vector<Moments> moments_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_ADAMW_H_
