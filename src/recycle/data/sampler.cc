#include "recycle/data/sampler.h"

#include <bit>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/prng.h"

namespace recycle {
namespace {

// Enough rounds for the order to look random; the permutation holds for any number.
constexpr int kFeistelRounds = 6;

}  // namespace

Sampler::Sampler(std::int64_t num_samples, int micro_batches_per_iteration, int micro_batch_size,
                 std::uint64_t seed)
    : num_samples_(num_samples),
      micro_batches_per_iteration_(micro_batches_per_iteration),
      micro_batch_size_(micro_batch_size),
      seed_(seed),
      half_bits_((std::bit_width(static_cast<std::uint64_t>(num_samples)) + 1) / 2) {
  RC_CHECK(num_samples >= 1 && micro_batches_per_iteration >= 1 && micro_batch_size >= 1)
      << num_samples << " samples, " << micro_batches_per_iteration << " micro-batches of "
      << micro_batch_size;
}

std::vector<std::int64_t> Sampler::Samples(int iteration, int global_micro_batch) const {
  RC_CHECK(iteration >= 0 && global_micro_batch >= 0 &&
           global_micro_batch < micro_batches_per_iteration_)
      << "iteration " << iteration << ", micro-batch " << global_micro_batch << " of "
      << micro_batches_per_iteration_;
  const std::int64_t first =
      (std::int64_t{iteration} * micro_batches_per_iteration_ + global_micro_batch) *
      micro_batch_size_;
  std::vector<std::int64_t> samples(static_cast<std::size_t>(micro_batch_size_));
  for (std::int64_t j = 0; j < micro_batch_size_; ++j) {
    const std::int64_t position = first + j;
    samples[static_cast<std::size_t>(j)] =
        Permute(position / num_samples_, position % num_samples_);
  }
  return samples;
}

// A balanced Feistel network permutes [0, 4^half_bits), which has the samples in it; walking its
// cycle until the value is a sample again restricts the permutation to them (Black and Rogaway,
// "Ciphers with Arbitrary Finite Domains", 2002). At most 4 steps on average.
std::int64_t Sampler::Permute(std::int64_t epoch, std::int64_t index) const {
  const std::uint64_t key = HashKeys({seed_, static_cast<std::uint64_t>(epoch)});
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto word = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = word >> half_bits_;
    std::uint64_t right = word & mask;
    for (int round = 0; round < kFeistelRounds; ++round) {
      const std::uint64_t mixed = HashKeys({key, static_cast<std::uint64_t>(round), right});
      left = std::exchange(right, left ^ (mixed & mask));
    }
    word = (left << half_bits_) | right;
  } while (word >= static_cast<std::uint64_t>(num_samples_));
  return static_cast<std::int64_t>(word);
}

}  // namespace recycle
