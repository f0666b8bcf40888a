#include "recycle/app/simulation_plans.h"

#include <algorithm>

#include "recycle/base/index.h"
#include "recycle/planner/normalization.h"
#include "recycle/planner/plan_builder.h"

namespace recycle {
namespace {

int Largest(const std::vector<int>& counts) {
  return *std::max_element(counts.begin(), counts.end());
}

std::vector<int> CountsOf(const Parallelism& parallel, const std::vector<WorkerId>& failed) {
  std::vector<int> counts;
  for (const int live : LivePerStage(parallel, failed)) counts.push_back(parallel.data - live);
  return counts;
}

// `plan` with other live workers: at every stage the n-th live worker of `failed` does what the
// n-th of the plan did. Timing and legality know workers only as numbers, so both stay. Workers
// that are left over idle.
Plan WithFailed(Plan plan, const std::vector<WorkerId>& failed) {
  std::vector<std::vector<WorkerId>> live(Index(plan.parallel.pipeline));
  for (const WorkerId worker : LiveWorkers(plan.parallel, failed)) {
    live[Index(worker.stage.value())].push_back(worker);
  }
  std::vector<std::size_t> used(live.size(), 0);
  for (WorkerSchedule& entry : plan.workers) {
    const std::size_t stage = Index(entry.worker.stage.value());
    entry.worker = live[stage][used[stage]++];
  }
  for (std::size_t stage = 0; stage < live.size(); ++stage) {
    for (std::size_t i = used[stage]; i < live[stage].size(); ++i) {
      plan.workers.push_back({live[stage][i], {}});
    }
  }
  std::sort(plan.workers.begin(), plan.workers.end(),
            [](const WorkerSchedule& a, const WorkerSchedule& b) { return a.worker < b.worker; });
  plan.failed = failed;
  plan.lower_bound.reset();  // it was that of other failures
  AddStepActions(plan);
  return plan;
}

}  // namespace

StatusOr<Ticks> SimulationPlans::OneFOneBPeriod(int micro_batches) {
  const auto known = one_f_one_b_.find(micro_batches);
  if (known != one_f_one_b_.end()) return known->second;
  PlanRequest request = job_;
  request.micro_batches = micro_batches;
  RC_ASSIGN_OR_RETURN(const Ticks period, FaultFreeOneFOneBPeriod(request));
  one_f_one_b_[micro_batches] = period;
  return period;
}

StatusOr<Plan> SimulationPlans::OneFOneBPlan(int pipelines, int micro_batches) {
  PlanRequest request = job_;
  request.parallel.data = pipelines;
  request.micro_batches = micro_batches;
  request.method = Method::kOneFOneB;
  for (StageCosts& stage : request.costs.stages) stage.capacity_bytes.reset();
  return MakePlan(request);
}

PlanRequest SimulationPlans::RequestOf(PlanVariant variant) const {
  PlanRequest request = job_;
  switch (variant) {
    case PlanVariant::kFull:
      break;
    case PlanVariant::kNoStagger:
      request.options.staggered = false;
      break;
    case PlanVariant::kNoDecouple:
      request.options.decoupled = false;
      break;
    case PlanVariant::kNaive:
      request.method = Method::kNaive;
      break;
  }
  return request;
}

StatusOr<Plan> SimulationPlans::CanonicalPlan(PlanVariant variant, const Counts& failed_per_stage) {
  PlanRequest request = RequestOf(variant);
  request.failed = PlacesOf(request.parallel, failed_per_stage);
  return MakePlan(request);
}

StatusOr<Ticks> SimulationPlans::TemplatePeriod(PlanVariant variant, int failures) {
  const auto key = std::make_pair(variant, failures);
  const auto known = template_period_.find(key);
  if (known != template_period_.end()) return known->second;
  Ticks period = 0;
  const Counts counts(Index(job_.parallel.pipeline), failures);
  if (variant == PlanVariant::kNaive) {
    RC_ASSIGN_OR_RETURN(const Plan plan, CanonicalPlan(variant, counts));
    period = *plan.period;
  } else {
    RC_ASSIGN_OR_RETURN(const FlatJob whole, MakeFlatJob(RequestOf(variant)));
    const FlatJob job = WithLiveCounts(whole, Counts(counts.size(), job_.parallel.data - failures));
    RC_ASSIGN_OR_RETURN(PipelineTemplate made,
                        MakeTemplate(job, TemplateLength(job), TemplateEffort::kHead));
    period = made.figures.period;
    templates_.emplace(key, std::move(made));
  }
  template_period_[key] = period;
  return period;
}

Ticks SimulationPlans::WorkBound(int failures) const {
  const int live = job_.parallel.data - failures;
  const int quota = (job_.parallel.data * job_.micro_batches + live - 1) / live;
  Ticks bound = 0;
  for (const StageCosts& stage : job_.costs.stages) {
    bound = std::max(bound, quota * (stage.forward + stage.backward_input + stage.backward_weight) +
                                stage.all_reduce + stage.optimizer);
  }
  return bound;
}

StatusOr<int> SimulationPlans::BestTemplate(PlanVariant variant, int failures) {
  const auto key = std::make_pair(variant, failures);
  const auto known = best_.find(key);
  if (known != best_.end()) return known->second;
  int best = failures;
  RC_ASSIGN_OR_RETURN(Ticks least, TemplatePeriod(variant, failures));
  // A plan for more failures serves fewer; those that cannot be better are not made.
  for (int more = failures + 1; more < job_.parallel.data && WorkBound(more) < least; ++more) {
    RC_ASSIGN_OR_RETURN(const Ticks period, TemplatePeriod(variant, more));
    if (period >= least) continue;
    least = period;
    best = more;
  }
  best_[key] = best;
  return best;
}

StatusOr<Ticks> SimulationPlans::ReroutingPeriod(PlanVariant variant,
                                                 const std::vector<int>& failed_per_stage) {
  if (!search_) {
    RC_ASSIGN_OR_RETURN(const int best, BestTemplate(variant, Largest(failed_per_stage)));
    return TemplatePeriod(variant, best);
  }
  const auto key = std::make_pair(variant, failed_per_stage);
  const auto known = searched_.find(key);
  if (known != searched_.end()) return known->second;
  RC_ASSIGN_OR_RETURN(const Plan plan, CanonicalPlan(variant, failed_per_stage));
  searched_[key] = *plan.period;
  return *plan.period;
}

StatusOr<Plan> SimulationPlans::ReroutingPlan(PlanVariant variant,
                                              const std::vector<WorkerId>& failed) {
  const Counts counts = CountsOf(job_.parallel, failed);
  if (search_) {
    RC_ASSIGN_OR_RETURN(Plan plan, CanonicalPlan(variant, counts));
    return WithFailed(std::move(plan), failed);
  }
  RC_ASSIGN_OR_RETURN(const int best, BestTemplate(variant, Largest(counts)));
  if (variant == PlanVariant::kNaive) {
    RC_ASSIGN_OR_RETURN(Plan plan, CanonicalPlan(variant, Counts(counts.size(), best)));
    return WithFailed(std::move(plan), failed);
  }
  PlanRequest request = RequestOf(variant);
  request.failed = failed;
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(request));
  return BuildPlan(request, job, ExpandTemplate(job, templates_.at({variant, best}).order));
}

}  // namespace recycle
