// Takes the state of a stage out of a checkpoint, whatever the layout was that saved it: tensors
// are found by name, only the bytes of this stage's tensors are read, and each is compared with its
// hash.
#ifndef RECYCLE_EXECUTOR_CHECKPOINT_READER_H_
#define RECYCLE_EXECUTOR_CHECKPOINT_READER_H_

#include <optional>
#include <string>

#include "recycle/base/status.h"
#include "recycle/executor/optimizer_step.h"

namespace recycle {

// Writes parameters and moments of `path`, a checkpoint's folder, to the state of `step`; its
// scalars are the caller's. Returns the squared norm of the gradient of the last step, if the
// checkpoint knows it. Errors: kNotFound, kDataLoss: no checkpoint, a tensor that it lacks or
// that has another shape, or damage; the state is undefined then.
StatusOr<std::optional<double>> LoadState(const std::string& path, OptimizerStep& step);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_CHECKPOINT_READER_H_
