// Dropout whose mask is a pure function of its key and the element index, so that any worker can
// repeat a micro-batch bit for bit and the mask needs no memory: the backward pass makes it again.
//
//   const Dropout batch = Dropout::ForMicroBatch(0.1, seed, iteration, micro_batch);
//   const Dropout site = batch.At(layer, DropoutSite::kMlpOutput);
//   y = site.Apply(x);        // forward
//   gx = site.Apply(gy);      // backward: the same mask and scale
//
// A value; thread-safe.
#ifndef RECYCLE_NN_DROPOUT_H_
#define RECYCLE_NN_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace recycle {

// The places of a layer that drop.
enum class DropoutSite : std::uint8_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

class Dropout {
 public:
  // Keeps everything.
  Dropout() = default;
  // 0 <= probability < 1, rounded to a multiple of 2^-32.
  static Dropout ForMicroBatch(double probability, std::uint64_t seed, int iteration,
                               int micro_batch);
  Dropout At(int layer, DropoutSite site) const;

  bool active() const { return threshold_ > 0; }

  // A new tensor: each element of x (float, contiguous) zeroed with the probability, or else
  // divided by 1 - probability. x itself when nothing is dropped.
  at::Tensor Apply(const at::Tensor& x) const;

 private:
  Dropout(std::uint64_t key, std::uint32_t threshold) : key_(key), threshold_(threshold) {}

  std::uint64_t key_ = 0;
  std::uint32_t threshold_ = 0;  // an element falls if its 32 random bits are below
};

}  // namespace recycle

#endif  // RECYCLE_NN_DROPOUT_H_
