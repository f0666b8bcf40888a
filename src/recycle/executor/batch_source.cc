#include "recycle/executor/batch_source.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/empty.h>

#include "recycle/base/check.h"
#include "recycle/data/token_file.h"

namespace recycle {
namespace {

std::span<std::int64_t> Row(at::Tensor& matrix, std::int64_t row) {
  const auto columns = static_cast<std::size_t>(matrix.size(1));
  return {matrix.data_ptr<std::int64_t>() + row * matrix.size(1), columns};
}

}  // namespace

StatusOr<BatchSource> BatchSource::Open(const ExecutorOptions& options) {
  RC_ASSIGN_OR_RETURN(TokenFile tokens,
                      TokenFile::Open(options.token_file, options.model.vocabulary));
  RC_ASSIGN_OR_RETURN(Dataset dataset, Dataset::Create(std::move(tokens), options.model.sequence,
                                                       options.validation_fraction));
  if (options.validate_every > 0 && dataset.num_validation_samples() == 0) {
    return absl::InvalidArgumentError(
        "train.validate_every is set but data.validation keeps no sample: set it above 0");
  }
  return BatchSource(std::move(dataset), options);
}

BatchSource::BatchSource(Dataset dataset, const ExecutorOptions& options)
    : dataset_(std::move(dataset)),
      training_(dataset_.num_train_samples(), options.parallel.data * options.micro_batches,
                options.micro_batch_size, options.seed) {
  if (dataset_.num_validation_samples() > 0) {
    validation_.emplace(dataset_.num_validation_samples(),
                        options.parallel.data * options.micro_batches, options.micro_batch_size,
                        options.seed);
  }
}

Batch BatchSource::Training(int iteration, int micro_batch) const {
  return Read(training_.Samples(iteration, micro_batch));
}

Batch BatchSource::Validation(int micro_batch) const {
  RC_CHECK(validation_.has_value()) << "no sample is kept for validation";
  std::vector<std::int64_t> samples = validation_->Samples(/*iteration=*/0, micro_batch);
  for (std::int64_t& sample : samples) sample = dataset_.ValidationSample(sample);
  return Read(samples);
}

Batch BatchSource::Read(const std::vector<std::int64_t>& samples) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  Batch batch{at::empty({rows, dataset_.sequence()}, at::kLong),
              at::empty({rows, dataset_.sequence()}, at::kLong)};
  for (std::int64_t row = 0; row < rows; ++row) {
    dataset_.Fill(samples[static_cast<std::size_t>(row)], Row(batch.tokens_BT, row),
                  Row(batch.targets_BT, row));
  }
  return batch;
}

}  // namespace recycle
