#include "recycle/planner/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace recycle {
namespace {

PlanRequest Without(const PlanRequest& request, WorkerId worker) {
  PlanRequest without = request;
  std::erase_if(without.slow, [&](const SlowWorker& slow) { return slow.worker == worker; });
  without.failed.push_back(worker);
  return without;
}

// Whether `worker` runs anything but steps. One that is too slow for a single micro-batch does not.
bool HasWork(const Plan& plan, WorkerId worker) {
  return std::any_of(plan.workers.begin(), plan.workers.end(), [&](const WorkerSchedule& entry) {
    return entry.worker == worker &&
           std::any_of(entry.actions.begin(), entry.actions.end(),
                       [](const Action& action) { return HasMicroBatch(action.kind); });
  });
}

std::string ReasonText(const StragglerVerdict& verdict) {
  const std::string worker = ToString(verdict.worker);
  if (!verdict.period_evicted.has_value()) {
    return fmt::format("keep {}: it is the last live worker of its stage", worker);
  }
  if (verdict.evict && *verdict.period_evicted >= verdict.period_kept) {
    return fmt::format("evict {} ({}x as slow): it is too slow for a single micro-batch", worker,
                       verdict.factor);
  }
  return fmt::format("{} {} ({}x as slow): period {:g} with it, {:g} without",
                     verdict.evict ? "evict" : "keep", worker, verdict.factor,
                     ToUnits(verdict.period_kept), ToUnits(*verdict.period_evicted));
}

}  // namespace

StatusOr<StragglerAdvice> JudgeStragglers(const PlanRequest& request) {
  std::vector<SlowWorker> slowest_first = request.slow;
  std::stable_sort(slowest_first.begin(), slowest_first.end(),
                   [](const SlowWorker& a, const SlowWorker& b) { return a.factor > b.factor; });
  PlanRequest advised = request;
  StragglerAdvice advice;
  RC_ASSIGN_OR_RETURN(advice.plan, MakePlan(request));
  for (const SlowWorker& slow : slowest_first) {
    if (slow.factor <= 1) continue;
    StragglerVerdict verdict{.worker = slow.worker,
                             .factor = slow.factor,
                             .evict = false,
                             .period_kept = *advice.plan.period,
                             .period_evicted = std::nullopt,
                             .reason = ""};
    const PlanRequest without = Without(advised, slow.worker);
    const std::vector<int> live = LivePerStage(without.parallel, without.failed);
    if (live[static_cast<std::size_t>(slow.worker.stage.value())] > 0) {
      RC_ASSIGN_OR_RETURN(Plan plan, MakePlan(without));
      verdict.period_evicted = plan.period;
      verdict.evict = *plan.period < verdict.period_kept || !HasWork(advice.plan, slow.worker);
      if (verdict.evict) {
        advised = without;
        advice.plan = std::move(plan);
      }
    }
    verdict.reason = ReasonText(verdict);
    advice.verdicts.push_back(std::move(verdict));
  }
  return advice;
}

}  // namespace recycle
