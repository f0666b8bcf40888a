#include "recycle/planner/interleaved.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "recycle/planner/fault_free.h"

namespace recycle {
namespace {

// The n-th forward (or backward) of a worker: groups of PP micro-batches visit its stages in turn,
// the backwards from the highest stage down.
PipelineAction Nth(const FlatJob& job, int column, int n, ActionKind kind) {
  const int per_worker = job.num_stages / job.num_columns;
  const int group = n / (job.num_columns * per_worker);
  const int within = n % (job.num_columns * per_worker);
  int visit = within / job.num_columns;
  if (kind == ActionKind::kBackward) visit = per_worker - 1 - visit;
  return {.kind = kind,
          .stage = visit * job.num_columns + column,
          .m = group * job.num_columns + within % job.num_columns};
}

std::vector<PipelineAction> InterleavedSequence(const FlatJob& job, int column) {
  const int per_worker = job.num_stages / job.num_columns;
  const int total = job.micro_batches * per_worker;
  const int warm_up =
      std::min(total, 2 * (job.num_columns - column - 1) + (per_worker - 1) * job.num_columns);
  std::vector<PipelineAction> sequence;
  sequence.reserve(2 * static_cast<std::size_t>(total));
  for (int n = 0; n < warm_up; ++n) sequence.push_back(Nth(job, column, n, ActionKind::kForward));
  for (int n = warm_up; n < total; ++n) {
    sequence.push_back(Nth(job, column, n, ActionKind::kForward));
    sequence.push_back(Nth(job, column, n - warm_up, ActionKind::kBackward));
  }
  for (int n = total - warm_up; n < total; ++n) {
    sequence.push_back(Nth(job, column, n, ActionKind::kBackward));
  }
  return sequence;
}

}  // namespace

StatusOr<Order> MakeInterleaved(const FlatJob& job) {
  if (job.micro_batches % job.num_columns != 0) {
    return absl::InvalidArgumentError(
        fmt::format("micro-batches are {}, but must be a multiple of pp = {} for method "
                    "interleaved; the nearest "
                    "valid choice is {}",
                    job.micro_batches, job.num_columns,
                    std::max(1, (job.micro_batches + job.num_columns / 2) / job.num_columns) *
                        job.num_columns));
  }
  return MakeFaultFree(job, "interleaved",
                       [&](int column) { return InterleavedSequence(job, column); });
}

}  // namespace recycle
