#include "recycle/planner/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "recycle/planner/adaptive.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/disjunctive_model.h"
#include "recycle/planner/plan_builder.h"
#include "recycle/planner/time_indexed_model.h"

namespace recycle {
namespace {

constexpr std::size_t kMostUnitActions = 100;
constexpr std::size_t kMostActions = 40;

Status CheckSize(const FlatJob& job) {
  if (job.num_stages != job.num_columns) {
    return absl::InvalidArgumentError(fmt::format(
        "virtual stages are {}, but method exact has one stage a worker; the nearest valid "
        "choice is 1, or method adaptive",
        job.num_stages / job.num_columns));
  }
  const std::size_t most = IsUnitTime(job) ? kMostUnitActions : kMostActions;
  if (job.num_actions() <= most) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the job has {} actions, but method exact takes at most {} ({} with equal durations and "
      "whole-number sends); the nearest valid choice is method adaptive",
      job.num_actions(), kMostActions, kMostUnitActions));
}

Candidates MakeCandidates(const FlatJob& job, Affinity affinity) {
  Candidates candidates;
  for (int slot = 0; slot < job.num_slots(); ++slot) {
    const auto column =
        static_cast<std::size_t>(job.column[static_cast<std::size_t>(job.StageAt(slot))]);
    const std::vector<int>& live = job.live[column];
    const int home = job.MicroBatchAt(slot) % job.num_pipelines;
    const bool stays =
        affinity == Affinity::kStrict && std::binary_search(live.begin(), live.end(), home);
    candidates.push_back(stays ? std::vector<int>{home} : live);
  }
  return candidates;
}

// Periods are sums of durations, so two that differ differ by at least this.
Ticks Resolution(const FlatJob& job, Ticks period) {
  Ticks common = 0;
  for (const auto& durations : job.durations) {
    for (const Ticks ticks : durations) common = std::gcd(common, ticks);
  }
  for (std::size_t i = 0; i < job.stages.size(); ++i) {
    common = std::gcd(std::gcd(common, job.send_forward[i]), job.send_backward[i]);
    common = std::gcd(std::gcd(common, job.stages[i].all_reduce), job.stages[i].optimizer);
  }
  return std::max(common, period / 10'000);  // the solver's tolerance
}

// Improves `best` until nothing shorter exists or time is up. Returns the proven bound.
Ticks Improve(const FlatJob& job, const Candidates& candidates, std::chrono::milliseconds limit,
              const Clock& clock, BestOrder& best) {
  const TimePoint deadline = clock.Now() + limit;
  Ticks bound = best.bound();
  const bool unit_time = IsUnitTime(job);
  while (best.best()->figures.period > bound) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock.Now());
    if (left.count() <= 0) return bound;
    const Ticks period = best.best()->figures.period;
    const Ticks target = period - Resolution(job, period);
    const ModelAnswer answer = unit_time ? SolveTimeIndexed(job, candidates, target, left)
                                         : SolveDisjunctive(job, candidates, target, bound, left);
    if (answer.outcome == Milp::Outcome::kInfeasible) return period;
    bound = std::max(bound, answer.bound);
    if (!answer.order.has_value() || best.Offer(*answer.order) >= period) return bound;
  }
  return bound;
}

}  // namespace

StatusOr<ExactResult> SolveExact(const PlanRequest& request, const Clock& clock) {
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(request));
  RC_RETURN_IF_ERROR(CheckSize(job));
  BestOrder best(job);
  RC_ASSIGN_OR_RETURN(const TimedOrder start, MakeAdaptive(job, request.affinity, Effort::kFull));
  best.Offer(start.order);
  const Ticks bound =
      Improve(job, MakeCandidates(job, request.affinity), request.time_limit, clock, best);
  ExactResult result;
  result.plan = BuildPlan(request, job, best.best()->order, best.best()->figures);
  const Ticks period = *result.plan.period;
  result.optimal = bound >= period;
  result.plan.lower_bound = std::min(bound, period);
  result.status =
      result.optimal
          ? fmt::format("optimal: no plan has a period below {:g}", ToUnits(period))
          : fmt::format("bound {:g} and best found {:g}: out of time before either was proven",
                        ToUnits(bound), ToUnits(period));
  return result;
}

}  // namespace recycle
