#include "recycle/app/snapshot_budget.h"

#include <algorithm>
#include <cmath>

#include "recycle/app/job_conversion.h"
#include "recycle/base/index.h"
#include "recycle/coordinator/snapshot_routes.h"

namespace recycle {
namespace {

// Share of the computing that `auto` lets snapshots cost.
constexpr double kShare = 0.005;
// Processor time for a byte of state: every worker copies its own, one per stage sends it to
// another process. Their sum for three pipelines is measured (two cores, 59 MB of state).
constexpr double kCopySeconds = 0.6e-9;
constexpr double kSendSeconds = 6.5e-9;
constexpr double kStateBytes = 12;    // per parameter: value and two moments
constexpr double kFlopsPerToken = 6;  // per parameter: forward and backward
constexpr double kSnapshotsKept = 2;

int AutoEvery(const JobConfig& config) {
  const double tokens = static_cast<double>(config.parallel.data) * config.batch.micro_batches *
                        config.batch.micro_batch_size * config.model.sequence;
  const double snapshot = kStateBytes * (config.parallel.data * kCopySeconds + kSendSeconds);
  const double iteration = kFlopsPerToken * tokens / kFlopsPerSecond;
  return static_cast<int>(std::ceil(snapshot / (kShare * iteration)));
}

}  // namespace

int SnapshotEvery(const JobConfig& config) {
  if (config.parallel.pipeline == 1) return 0;  // nobody of another stage to hold it
  if (config.resilience.snapshot_every) return *config.resilience.snapshot_every;
  return AutoEvery(config);
}

std::map<WorkerId, double> SnapshotBytes(const JobConfig& config, const std::vector<WorkerId>& live,
                                         const CostProfile& costs) {
  std::map<WorkerId, double> bytes;
  if (SnapshotEvery(config) == 0) return bytes;
  const auto state = [&](StageId stage) {
    return kSnapshotsKept * costs.stages[Index(stage.value())].state_bytes;
  };
  for (const WorkerId worker : live) bytes[worker] += state(worker.stage);
  for (const auto& [stage, route] : RouteSnapshots(live, config.launch.agents, {})) {
    bytes[route.holder] += state(stage);
  }
  return bytes;
}

}  // namespace recycle
