// A planner in closed form, small jobs and hand-written failures, for tests of the simulator.
// Test-only.
#ifndef RECYCLE_SIMULATOR_SIMULATION_TESTING_H_
#define RECYCLE_SIMULATOR_SIMULATION_TESTING_H_

#include <algorithm>
#include <vector>

#include "recycle/simulator/simulation.h"

namespace recycle::testing {

// Unit costs without sends: 1F1B takes (n + PP - 1) * L, and re-routing ceil(N / live) * L, the
// bound of staggered plans with enough memory.
class ClosedFormPlanner : public SimulationPlanner {
 public:
  explicit ClosedFormPlanner(const SimulatedJob& job) : job_(job) {}

  StatusOr<Ticks> OneFOneBPeriod(int micro_batches) override {
    return (micro_batches + job_.parallel.pipeline - 1) * MicroBatch();
  }
  StatusOr<Ticks> ReroutingPeriod(PlanVariant /*variant*/,
                                  const std::vector<int>& failed_per_stage) override {
    const int live =
        job_.parallel.data - *std::max_element(failed_per_stage.begin(), failed_per_stage.end());
    return (job_.num_micro_batches() + live - 1) / live * MicroBatch();
  }
  StatusOr<Plan> OneFOneBPlan(int /*pipelines*/, int /*micro_batches*/) override {
    return absl::UnimplementedError("a closed form is no schedule");
  }
  StatusOr<Plan> ReroutingPlan(PlanVariant /*variant*/,
                               const std::vector<WorkerId>& /*failed*/) override {
    return absl::UnimplementedError("a closed form is no schedule");
  }

 private:
  Ticks MicroBatch() const {
    const StageCosts& stage = job_.costs.stages.front();
    return stage.forward + stage.backward_input + stage.backward_weight;
  }
  const SimulatedJob& job_;
};

// dp x pp workers of one GPU, m micro-batches a pipeline, F + I + W = 1 s; a copy takes 1 s.
inline SimulatedJob SmallJob(int dp, int pp, int m) {
  SimulatedJob job;
  job.parallel = {.data = dp, .pipeline = pp};
  job.micro_batches = m;
  job.layers = 2 * pp;
  job.parameters = 1e10 / 16 * pp;
  StageCosts stage;
  stage.forward = 300 * kTicksPerUnit;
  stage.backward_input = 400 * kTicksPerUnit;
  stage.backward_weight = 300 * kTicksPerUnit;
  job.costs.stages.assign(static_cast<std::size_t>(pp), stage);
  job.costs.send_forward.assign(static_cast<std::size_t>(pp - 1), 0);
  job.costs.send_backward = job.costs.send_forward;
  return job;
}

// Every block is filled at the start; then these events.
inline JobTimeline TimelineOf(const SimulatedJob& job, std::vector<JobEvent> events,
                              double duration_s) {
  JobTimeline timeline;
  timeline.filled.assign(static_cast<std::size_t>(job.num_blocks()), true);
  timeline.duration_s = duration_s;
  timeline.failures = static_cast<int>(std::count_if(
      events.begin(), events.end(), [](const JobEvent& event) { return !event.join; }));
  constexpr double kNever = std::numeric_limits<double>::infinity();
  timeline.mtbf_s = timeline.failures > 0 ? duration_s / timeline.failures : kNever;
  timeline.mean_repair_s = 500;
  timeline.events = std::move(events);
  return timeline;
}

}  // namespace recycle::testing

#endif  // RECYCLE_SIMULATOR_SIMULATION_TESTING_H_
