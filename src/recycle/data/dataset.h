// Samples of fixed length out of a token file, split into training and validation.
//
// Sample s with sequence length T covers tokens [s*T, s*T + T]: inputs are the first T of them,
// targets the last T. Samples [0, num_train_samples()) are for training; the last
// num_validation_samples() are for validation. Immutable: thread-safe.
#ifndef RECYCLE_DATA_DATASET_H_
#define RECYCLE_DATA_DATASET_H_

#include <cstdint>
#include <span>
#include <utility>

#include "recycle/base/status.h"
#include "recycle/data/token_file.h"

namespace recycle {

class Dataset {
 public:
  // `validation_fraction` of the samples, rounded up, is for validation. Error: kInvalidArgument
  // naming data.text, model.sequence or data.validation if a fraction is outside [0, 1) or no
  // training sample is left.
  static StatusOr<Dataset> Create(TokenFile tokens, int sequence, double validation_fraction);

  int sequence() const { return sequence_; }
  std::int64_t num_train_samples() const { return num_train_; }
  std::int64_t num_validation_samples() const { return num_samples_ - num_train_; }
  // The id of validation sample `index`, 0 <= index < num_validation_samples().
  std::int64_t ValidationSample(std::int64_t index) const { return num_train_ + index; }

  // Fills both spans, of sequence() elements each, with sample `sample`.
  void Fill(std::int64_t sample, std::span<std::int64_t> inputs,
            std::span<std::int64_t> targets) const;

 private:
  Dataset(TokenFile tokens, int sequence, std::int64_t num_samples, std::int64_t num_train)
      : tokens_(std::move(tokens)),
        sequence_(sequence),
        num_samples_(num_samples),
        num_train_(num_train) {}

  TokenFile tokens_;
  int sequence_;
  std::int64_t num_samples_;
  std::int64_t num_train_;
};

}  // namespace recycle

#endif  // RECYCLE_DATA_DATASET_H_
