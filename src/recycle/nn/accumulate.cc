#include "recycle/nn/accumulate.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type

#include "recycle/nn/fixed_point_sums.h"

namespace recycle {

void AddGradient(std::span<const float> numbers, std::size_t begin, Parameter& parameter) {
  if (parameter.sums != nullptr) {
    parameter.sums->Add(numbers,
                        {parameter.gradient.data_ptr<std::int64_t>() + begin, numbers.size()});
    return;
  }
  float* const total = parameter.gradient.data_ptr<float>() + begin;
  for (std::size_t i = 0; i < numbers.size(); ++i) total[i] += numbers[i];
}

void AddGradient(const at::Tensor& gradient, Parameter& parameter) {
  AddGradient({gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel())}, 0,
              parameter);
}

}  // namespace recycle
