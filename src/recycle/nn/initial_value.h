// The values parameters start from.
#ifndef RECYCLE_NN_INITIAL_VALUE_H_
#define RECYCLE_NN_INITIAL_VALUE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "recycle/nn/model_options.h"

namespace recycle {

// GPT-2's initialisation: normal with deviation 0.02, residual projections 0.02 / sqrt(2
// num_blocks), norms 1 and biases 0. A pure function of (seed, name, shape, num_blocks), by integer
// arithmetic and operations that IEEE 754 rounds exactly: the same bits in every layout and on
// every machine.
at::Tensor InitialValue(const ParameterSpec& spec, int num_blocks, std::uint64_t seed);

}  // namespace recycle

#endif  // RECYCLE_NN_INITIAL_VALUE_H_
