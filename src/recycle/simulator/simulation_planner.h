// What the simulator asks of a planner. The simulator knows schedules only by these answers; app
// hands in the real planner, tests a simple one. No closed form stands in place of a schedule.
//
// Answers are pure functions of their arguments; implementations cache them. Not thread-safe.
#ifndef RECYCLE_SIMULATOR_SIMULATION_PLANNER_H_
#define RECYCLE_SIMULATOR_SIMULATION_PLANNER_H_

#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// How re-routing plans are made: recycle itself, and with techniques left out (the ablation).
enum class PlanVariant : std::uint8_t {
  kFull,
  kNoStagger,
  kNoDecouple,
  kNaive,  // re-routing alone: coupled, synchronous
};

class SimulationPlanner {
 public:
  virtual ~SimulationPlanner() = default;

  // Period of fault-free 1F1B with `micro_batches` per pipeline (coupled, synchronous).
  virtual StatusOr<Ticks> OneFOneBPeriod(int micro_batches) = 0;
  // The same as a plan of `pipelines` pipelines.
  virtual StatusOr<Plan> OneFOneBPlan(int pipelines, int micro_batches) = 0;

  // Period with `failed_per_stage` dead workers per stage, each below DP.
  virtual StatusOr<Ticks> ReroutingPeriod(PlanVariant variant,
                                          const std::vector<int>& failed_per_stage) = 0;
  // The plan for these dead workers; its period is at most ReroutingPeriod of their counts.
  virtual StatusOr<Plan> ReroutingPlan(PlanVariant variant,
                                       const std::vector<WorkerId>& failed) = 0;
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_SIMULATION_PLANNER_H_
