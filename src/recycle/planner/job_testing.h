// Jobs for the planner's tests and benchmarks, in one line each. Test-only.
#ifndef RECYCLE_PLANNER_JOB_TESTING_H_
#define RECYCLE_PLANNER_JOB_TESTING_H_

#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/prng.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/cost_options.h"
#include "recycle/planner/planner.h"

namespace recycle::testing {

inline constexpr std::string_view kUnit = "F=1";
inline constexpr std::string_view kReal = "F=1,I=1.05,W=0.85,send=0.05";

inline WorkerId At(int pipeline, int stage) {
  return WorkerId{PipelineId(pipeline), StageId(stage)};
}

// A job of dp x pp with m micro-batches; `costs` and `cap` as on the command line.
inline PlanRequest MakeRequest(int dp, int pp, int m, std::string_view costs = kUnit,
                               const std::string& cap = "none") {
  PlanRequest request;
  request.parallel = {.data = dp, .pipeline = pp};
  request.micro_batches = m;
  request.costs = MakeUniformProfile(ParseUniformCosts(costs).value(), request.parallel).value();
  RC_CHECK(ApplyMemoryCap(cap, request.parallel, request.costs).ok());
  return request;
}

// Fails the last `failures[i]` pipelines of every stage i.
inline void FailPerStage(PlanRequest& request, const std::vector<int>& failures) {
  for (int i = 0; i < static_cast<int>(failures.size()); ++i) {
    for (int f = 0; f < failures[static_cast<std::size_t>(i)]; ++f) {
      request.failed.push_back(At(request.parallel.data - 1 - f, i));
    }
  }
}

// The period of the request's plan, in units. There must be one, it must be legal, and its bound
// not above its period.
inline double PeriodOf(const PlanRequest& request) {
  const StatusOr<Plan> plan = MakePlan(request);
  RC_CHECK(plan.ok()) << plan.status();
  RC_CHECK(Validate(*plan).ok()) << Validate(*plan);
  RC_CHECK(*plan->lower_bound <= *plan->period) << *plan->lower_bound << " " << *plan->period;
  return ToUnits(*plan->period);
}

// A random job of at most the given sizes: any failures that leave every stage a live worker,
// uneven durations, sends, steps, memory splits and capacities.
inline PlanRequest RandomRequest(Prng& prng, int max_dp, int max_pp, int max_m) {
  const auto up_to = [&](int limit) {
    return static_cast<int>(prng.Below(static_cast<std::uint64_t>(limit) + 1));
  };
  PlanRequest request =
      MakeRequest(1 + up_to(max_dp - 1), 1 + up_to(max_pp - 1), 1 + up_to(max_m - 1));
  const bool uniform = prng.Below(3) == 0;
  for (StageCosts& stage : request.costs.stages) {
    if (!uniform) {
      stage.forward = kTicksPerUnit * (10 + up_to(10)) / 10;
      stage.backward_input = kTicksPerUnit * (10 + up_to(12)) / 10;
      stage.backward_weight = kTicksPerUnit * (5 + up_to(12)) / 10;
    }
    stage.optimizer = kTicksPerUnit * up_to(4) / 4;
    stage.all_reduce = kTicksPerUnit * up_to(4) / 4;
    stage.deferred_bytes = up_to(4) / 4.0;
    if (prng.Below(2) == 0) stage.capacity_bytes = 1 + up_to(2 * request.parallel.pipeline) / 2.0;
  }
  const Ticks send = kTicksPerUnit * up_to(4) / 10;
  for (Ticks& ticks : request.costs.send_forward) ticks = send;
  for (Ticks& ticks : request.costs.send_backward) ticks = send * up_to(2);
  std::vector<int> failures;
  failures.reserve(static_cast<std::size_t>(request.parallel.pipeline));
  for (int i = 0; i < request.parallel.pipeline; ++i) {
    failures.push_back(prng.Below(2) == 0 ? up_to(request.parallel.data - 1) : 0);
  }
  FailPerStage(request, failures);
  request.options.decoupled = prng.Below(4) != 0;
  request.options.staggered = prng.Below(3) != 0;
  return request;
}

}  // namespace recycle::testing

#endif  // RECYCLE_PLANNER_JOB_TESTING_H_
