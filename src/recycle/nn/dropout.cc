#include "recycle/nn/dropout.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/empty_like.h>

#include <cmath>

#include "recycle/base/check.h"
#include "recycle/base/prng.h"

namespace recycle {

Dropout Dropout::ForMicroBatch(double probability, std::uint64_t seed, int iteration,
                               int micro_batch) {
  RC_CHECK(probability >= 0.0 && probability < 1.0) << "dropout probability " << probability;
  return {HashKeys({seed, static_cast<std::uint64_t>(iteration),
                    static_cast<std::uint64_t>(micro_batch)}),
          static_cast<std::uint32_t>(std::floor(probability * 0x1.0p32))};
}

Dropout Dropout::At(int layer, DropoutSite site) const {
  return {HashKeys({key_, static_cast<std::uint64_t>(layer), static_cast<std::uint64_t>(site)}),
          threshold_};
}

at::Tensor Dropout::Apply(const at::Tensor& x) const {
  if (!active()) return x;
  RC_CHECK(x.is_contiguous());
  at::Tensor y = at::empty_like(x);
  const float* in = x.data_ptr<float>();
  float* out = y.data_ptr<float>();
  const auto scale = static_cast<float>(1.0 / (1.0 - threshold_ * 0x1.0p-32));
  const auto factor = [&](std::uint64_t bits) {
    return static_cast<std::uint32_t>(bits) < threshold_ ? 0.0F : scale;
  };
  // One hashed word serves two elements.
  const std::int64_t size = x.numel();
  for (std::int64_t i = 0; i + 1 < size; i += 2) {
    const std::uint64_t word = Mix64(key_ ^ static_cast<std::uint64_t>(i));
    out[i] = in[i] * factor(word);
    out[i + 1] = in[i + 1] * factor(word >> 32);
  }
  if (size % 2 != 0) {
    const std::uint64_t word = Mix64(key_ ^ static_cast<std::uint64_t>(size - 1));
    out[size - 1] = in[size - 1] * factor(word);
  }
  return y;
}

}  // namespace recycle
