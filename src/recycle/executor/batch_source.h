// What a micro-batch holds: tokens and targets as pure functions of (seed, iteration, global
// micro-batch index), read from the prepared corpus. First and last stage compute them for
// themselves; no tensor of them travels.
//
// Shapes: B samples of T tokens. Immutable: thread-safe.
#ifndef RECYCLE_EXECUTOR_BATCH_SOURCE_H_
#define RECYCLE_EXECUTOR_BATCH_SOURCE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/data/dataset.h"
#include "recycle/data/sampler.h"
#include "recycle/executor/executor_options.h"

namespace recycle {

struct Batch {
  at::Tensor tokens_BT;   // int64
  at::Tensor targets_BT;  // int64
};

class BatchSource {
 public:
  // Opens the token file. Errors: of TokenFile and Dataset; kInvalidArgument when validation is
  // wanted (train.validate_every) and no sample is kept for it.
  static StatusOr<BatchSource> Open(const ExecutorOptions& options);

  // `micro_batch` is the global index k*M + m; `iteration` is 0-based.
  Batch Training(int iteration, int micro_batch) const;
  // The same samples at every validation, so that its losses can be compared.
  Batch Validation(int micro_batch) const;

 private:
  BatchSource(Dataset dataset, const ExecutorOptions& options);
  Batch Read(const std::vector<std::int64_t>& samples) const;

  Dataset dataset_;
  Sampler training_;
  std::optional<Sampler> validation_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_BATCH_SOURCE_H_
