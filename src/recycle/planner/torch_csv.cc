#include "recycle/planner/torch_csv.h"

#include <fmt/format.h>

#include <string>

namespace recycle {
namespace {

// The line of a worker; empty if one of its micro-batches belongs to another pipeline.
std::string WorkerLine(const WorkerSchedule& schedule) {
  std::string line;
  for (const Action& action : schedule.actions) {
    if (!HasMicroBatch(action.kind)) continue;
    if (action.micro_batch.home != schedule.worker.pipeline) return "";
    line += fmt::format("{}{}{}{}", line.empty() ? "" : ",", action.stage.value(),
                        std::string(KindText(action.kind)), action.micro_batch.index);
  }
  return line;
}

}  // namespace

StatusOr<std::string> PlanToTorchCsv(const Plan& plan) {
  if (!plan.failed.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "the plan has {} failures, but torch-csv is for fault-free plans; the nearest valid choice "
        "is a plan without --failed and --failures",
        plan.failed.size()));
  }
  std::string csv;
  for (int column = 0; column < plan.parallel.pipeline; ++column) {
    std::string first;
    for (int k = 0; k < plan.parallel.data; ++k) {
      const WorkerSchedule* schedule =
          FindWorker(plan.workers, WorkerId{PipelineId(k), StageId(column)});
      const std::string line = schedule == nullptr ? "" : WorkerLine(*schedule);
      if (k == 0) first = line;
      if (line.empty() || line != first) {
        return absl::InvalidArgumentError(fmt::format(
            "worker {}:{} runs other actions than worker 0:{}, but torch-csv needs pipelines that "
            "are alike; the nearest valid choice is --affinity strict, or --dp 1",
            k, column, column));
      }
    }
    csv += first + "\n";
  }
  return csv;
}

}  // namespace recycle
