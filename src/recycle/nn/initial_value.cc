#include "recycle/nn/initial_value.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

constexpr double kDeviation = 0.02;

// The sum of twelve uniforms, less its mean 6: variance 1, and normal for this purpose
// (Irwin-Hall). It needs no logarithm or cosine, whose last bits differ between libraries.
double NextNormal(Prng& prng) {
  constexpr int kWords = 4;
  constexpr std::uint64_t kMask = (1U << 21) - 1;
  std::uint64_t sum = 0;
  for (int i = 0; i < kWords; ++i) {
    const std::uint64_t word = prng.Next();
    sum += (word & kMask) + ((word >> 21) & kMask) + ((word >> 42) & kMask);
  }
  // Each of the twelve integers stands for the middle of its interval of width 2^-21.
  return (static_cast<double>(sum) + 6.0) * 0x1.0p-21 - 6.0;
}

at::Tensor Normal(const ParameterSpec& spec, double deviation, std::uint64_t seed) {
  std::uint64_t key = Mix64(seed);
  for (const char c : spec.name) key = Mix64(key ^ static_cast<unsigned char>(c));
  Prng prng(key);
  at::Tensor value = at::empty(spec.shape);
  float* elements = value.data_ptr<float>();
  for (std::int64_t i = 0; i < value.numel(); ++i) {
    elements[i] = static_cast<float>(deviation * NextNormal(prng));
  }
  return value;
}

}  // namespace

at::Tensor InitialValue(const ParameterSpec& spec, int num_blocks, std::uint64_t seed) {
  switch (spec.initializer) {
    case Initializer::kNormal:
      return Normal(spec, kDeviation, seed);
    case Initializer::kResidualNormal:
      return Normal(spec, kDeviation / std::sqrt(2.0 * num_blocks), seed);
    case Initializer::kZeros:
      return at::zeros(spec.shape);
    case Initializer::kOnes:
      return at::ones(spec.shape);
  }
  __builtin_unreachable();
}

}  // namespace recycle
