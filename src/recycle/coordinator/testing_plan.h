// Test-only: legal plans and orders made without a planner. A lost worker's micro-batches go round
// its peers. One micro-batch after the other; but with measured costs a worker runs all its
// forwards first, which is faster.
#ifndef RECYCLE_COORDINATOR_TESTING_PLAN_H_
#define RECYCLE_COORDINATOR_TESTING_PLAN_H_

#include <algorithm>
#include <tuple>
#include <vector>

#include "recycle/coordinator/coordinator.h"
#include "recycle/plan/plan.h"

namespace recycle {

inline MakePlanFunction PlanMaker(const Parallelism& parallel, int micro_batches) {
  return [=](const PlanQuestion& question) -> StatusOr<Plan> {
    const std::vector<WorkerId>& failed = question.failed;
    Plan plan;
    plan.parallel = parallel;
    plan.micro_batches = micro_batches;
    plan.failed = failed;
    plan.slow = question.slow;
    plan.options = {.decoupled = false, .staggered = false};
    StageCosts stage;
    stage.forward = stage.backward_input = stage.backward_weight = 1000;
    plan.costs.stages.assign(static_cast<std::size_t>(parallel.pipeline), stage);
    plan.costs.send_forward.resize(static_cast<std::size_t>(parallel.pipeline) - 1);
    plan.costs.send_backward = plan.costs.send_forward;
    if (!question.measured.empty()) plan.costs = WithMeasured(plan.costs, question.measured);
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
    if (!question.measured.empty()) {
      for (WorkerSchedule& schedule : plan.workers) {
        std::stable_sort(schedule.actions.begin(), schedule.actions.end(),
                         [](const Action& a, const Action& b) { return a.kind < b.kind; });
      }
    }
    // The busiest worker's micro-batches.
    std::size_t most = 0;
    for (const WorkerSchedule& schedule : plan.workers) {
      most = std::max(most, schedule.actions.size() / 2);
    }
    plan.period = static_cast<Ticks>(most) * kTicksPerUnit;
    AddStepActions(plan);
    return plan;
  };
}

// One micro-batch after the other.
inline StatusOr<Schedule> OrderByMicroBatch(const Plan& rest) {
  Schedule workers = rest.workers;
  for (WorkerSchedule& schedule : workers) {
    std::sort(schedule.actions.begin(), schedule.actions.end(),
              [](const Action& a, const Action& b) {
                return std::tuple(a.micro_batch.index, a.micro_batch.home, a.kind) <
                       std::tuple(b.micro_batch.index, b.micro_batch.home, b.kind);
              });
  }
  return workers;
}

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_TESTING_PLAN_H_
