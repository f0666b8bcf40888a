// Test-only: legal plans made without a planner. A lost worker's micro-batches go round its peers.
#ifndef RECYCLE_COORDINATOR_TESTING_PLAN_H_
#define RECYCLE_COORDINATOR_TESTING_PLAN_H_

#include <algorithm>
#include <vector>

#include "recycle/coordinator/coordinator.h"
#include "recycle/plan/plan.h"

namespace recycle {

inline MakePlanFunction PlanMaker(const Parallelism& parallel, int micro_batches) {
  return [=](const std::vector<WorkerId>& failed) -> StatusOr<Plan> {
    Plan plan;
    plan.parallel = parallel;
    plan.micro_batches = micro_batches;
    plan.failed = failed;
    plan.options = {.decoupled = false, .staggered = false};
    for (const WorkerId worker : LiveWorkers(parallel, failed))
      plan.workers.push_back({worker, {}});
    std::vector<std::size_t> next(static_cast<std::size_t>(parallel.pipeline));
    for (int index = 0; index < parallel.data * micro_batches; ++index) {
      const MicroBatch batch{PipelineId(index / micro_batches), index % micro_batches};
      for (int stage = 0; stage < parallel.pipeline; ++stage) {
        std::vector<WorkerSchedule*> peers;
        WorkerSchedule* chosen = nullptr;
        for (WorkerSchedule& schedule : plan.workers) {
          if (schedule.worker.stage != StageId(stage)) continue;
          peers.push_back(&schedule);
          if (schedule.worker.pipeline == batch.home) chosen = &schedule;
        }
        if (chosen == nullptr)
          chosen = peers[next[static_cast<std::size_t>(stage)]++ % peers.size()];
        chosen->actions.push_back({ActionKind::kForward, StageId(stage), batch});
        chosen->actions.push_back({ActionKind::kBackward, StageId(stage), batch});
      }
    }
    return plan;
  };
}

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_TESTING_PLAN_H_
