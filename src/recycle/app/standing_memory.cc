#include "recycle/app/standing_memory.h"

#include <algorithm>

#include "recycle/app/job_config.h"
#include "recycle/app/job_conversion.h"
#include "recycle/app/snapshot_budget.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

// Reproducible sums take 8 bytes a number; what is reduced has 4 in any case.
double GradientBytes(const JobConfig& config, double parameter_bytes) {
  return parameter_bytes * (config.train.reproducible ? 3 : 2);
}

// The live workers of a stage write its layers in about equal shares.
double SaveBytes(const JobConfig& config, const std::vector<WorkerId>& live, StageId stage,
                 double state_bytes) {
  if (config.checkpoint.every == 0) return 0;
  const auto peers = std::count_if(
      live.begin(), live.end(), [stage](const WorkerId worker) { return worker.stage == stage; });
  return state_bytes / static_cast<double>(peers);
}

}  // namespace

std::map<WorkerId, StandingMemory> StandingMemoryOf(const JobConfig& config,
                                                    const std::vector<WorkerId>& live,
                                                    const CostProfile& costs) {
  std::map<WorkerId, double> snapshots = SnapshotBytes(config, live, costs);
  const bool keeps_state = HasStaggeredSteps(config) && config.schedule.rollback == "exact";
  std::map<WorkerId, StandingMemory> memory;
  for (const WorkerId worker : live) {
    const StageCosts& stage = costs.stages[Index(worker.stage.value())];
    memory[worker] = {.state_bytes = stage.state_bytes,
                      .gradient_bytes = GradientBytes(config, stage.parameter_bytes),
                      .save_bytes = SaveBytes(config, live, worker.stage, stage.state_bytes),
                      .snapshot_bytes = snapshots[worker],
                      .undo_bytes = keeps_state ? stage.state_bytes : 0};
  }
  return memory;
}

}  // namespace recycle
