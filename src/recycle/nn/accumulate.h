// How a W adds to a parameter's accumulator, whatever that is made of.
#ifndef RECYCLE_NN_ACCUMULATE_H_
#define RECYCLE_NN_ACCUMULATE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "recycle/nn/parameter.h"

namespace recycle {

// Adds `numbers` to the accumulator's elements from `begin` on.
void AddGradient(std::span<const float> numbers, std::size_t begin, Parameter& parameter);

// Adds `gradient`, contiguous float, to the accumulator's first elements: all of them, or the first
// rows.
void AddGradient(const at::Tensor& gradient, Parameter& parameter);

}  // namespace recycle

#endif  // RECYCLE_NN_ACCUMULATE_H_
