// Which samples a micro-batch holds: a pure function of (seed, iteration, global micro-batch
// index). There is no state to lose with a worker, and the order does not depend on the layout: 3
// pipelines of 4 micro-batches read what 1 pipeline of 12 reads.
//
// Positions are numbered through all iterations: p = (iteration*G + g)*size + j. Epoch p / N visits
// the N samples in a random order keyed by (seed, epoch), each exactly once.
//
//   Sampler sampler(dataset.num_train_samples(), DP * M, micro_batch_size, seed);
//   sampler.Samples(/*iteration=*/0, /*global_micro_batch=*/k * M + m);
//
// Immutable: thread-safe.
#ifndef RECYCLE_DATA_SAMPLER_H_
#define RECYCLE_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace recycle {

class Sampler {
 public:
  // All counts at least 1. micro_batches_per_iteration is global: DP * M.
  Sampler(std::int64_t num_samples, int micro_batches_per_iteration, int micro_batch_size,
          std::uint64_t seed);

  // The ids in [0, num_samples) of a micro-batch. Iterations count from 0.
  std::vector<std::int64_t> Samples(int iteration, int global_micro_batch) const;

 private:
  std::int64_t Permute(std::int64_t epoch, std::int64_t index) const;

  std::int64_t num_samples_;
  int micro_batches_per_iteration_;
  int micro_batch_size_;
  std::uint64_t seed_;
  int half_bits_;  // the Feistel network permutes words of 2 * half_bits_ bits
};

}  // namespace recycle

#endif  // RECYCLE_DATA_SAMPLER_H_
