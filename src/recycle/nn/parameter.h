// One trainable tensor of a stage and its gradient accumulator.
#ifndef RECYCLE_NN_PARAMETER_H_
#define RECYCLE_NN_PARAMETER_H_

#include <ATen/core/Tensor.h>

#include <string>

namespace recycle {

class FixedPointSums;

// `value` and `gradient` may be read and written in place between actions, or replaced by
// contiguous tensors of the same shape and type.
struct Parameter {
  std::string name;     // canonical, the same in every layout
  int layer = 0;        // the layer that owns it on this stage
  at::Tensor value;     // float, contiguous
  at::Tensor gradient;  // the accumulator: float or int64 (sums), contiguous, shape of `value`
  bool tied = false;    // another stage holds this parameter too: sum both gradients before a step
  bool decay = false;   // weight decay applies
  // What int64 accumulators are in; not owned. nullptr: `gradient` is float.
  FixedPointSums* sums = nullptr;
};

}  // namespace recycle

#endif  // RECYCLE_NN_PARAMETER_H_
