// The planner behind a simulation: 1F1B periods, and re-routing plans looked up by the largest
// number of failures of a stage, as in the plan table, whose templates are made when they are first
// asked for. With `search` every failure count per stage gets the planner's whole portfolio.
//
// Not thread-safe.
#ifndef RECYCLE_APP_SIMULATION_PLANS_H_
#define RECYCLE_APP_SIMULATION_PLANS_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "recycle/planner/flat_job.h"
#include "recycle/planner/planner.h"
#include "recycle/planner/virtual_pipelines.h"
#include "recycle/simulator/simulation_planner.h"

namespace recycle {

class SimulationPlans : public SimulationPlanner {
 public:
  // `job` is without failures and stragglers, one stage a worker; its capacities hold for
  // re-routing plans.
  SimulationPlans(PlanRequest job, bool search) : job_(std::move(job)), search_(search) {}

  StatusOr<Ticks> OneFOneBPeriod(int micro_batches) override;
  StatusOr<Plan> OneFOneBPlan(int pipelines, int micro_batches) override;
  StatusOr<Ticks> ReroutingPeriod(PlanVariant variant,
                                  const std::vector<int>& failed_per_stage) override;
  StatusOr<Plan> ReroutingPlan(PlanVariant variant, const std::vector<WorkerId>& failed) override;

 private:
  using Counts = std::vector<int>;  // failures per stage

  PlanRequest RequestOf(PlanVariant variant) const;
  // Period of the template for exactly `failures` dead workers at every stage.
  StatusOr<Ticks> TemplatePeriod(PlanVariant variant, int failures);
  // The number of failures whose template is best for stages with up to `failures`.
  StatusOr<int> BestTemplate(PlanVariant variant, int failures);
  // No plan for so many failures at every stage is faster.
  Ticks WorkBound(int failures) const;
  // The plan that stands for these counts where plans are not expanded from templates.
  StatusOr<Plan> CanonicalPlan(PlanVariant variant, const Counts& failed_per_stage);

  const PlanRequest job_;
  const bool search_;
  std::map<int, Ticks> one_f_one_b_;                              // by micro-batches
  std::map<std::pair<PlanVariant, int>, Ticks> template_period_;  // by failures per stage
  std::map<std::pair<PlanVariant, int>, PipelineTemplate> templates_;
  std::map<std::pair<PlanVariant, int>, int> best_;
  std::map<std::pair<PlanVariant, Counts>, Ticks> searched_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATION_PLANS_H_
