#include "recycle/coordinator/regroup.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/base/check.h"

namespace recycle {

StatusOr<ResumePoint> DecideResume(const std::map<WorkerId, Ledger>& ledgers,
                                   std::int32_t iterations) {
  RC_CHECK(!ledgers.empty());
  const auto [least, most] = std::minmax_element(
      ledgers.begin(), ledgers.end(),
      [](const auto& a, const auto& b) { return a.second.version < b.second.version; });
  const std::int32_t lowest = least->second.version;
  const std::int32_t highest = most->second.version;
  if (lowest < 0 || highest > iterations) {
    return absl::FailedPreconditionError(
        fmt::format("worker {} says it has made {} steps; a job of {} iterations has 0 to {}",
                    ToString(lowest < 0 ? least->first : most->first),
                    lowest < 0 ? lowest : highest, iterations, iterations));
  }
  if (highest > lowest + 1) {
    return absl::FailedPreconditionError(
        fmt::format("worker {} has made {} steps and worker {} {}; they may differ by one at most",
                    ToString(least->first), lowest, ToString(most->first), highest));
  }
  const bool somebody_has_norm = std::any_of(
      ledgers.begin(), ledgers.end(),
      [&](const auto& entry) { return entry.second.version == lowest && entry.second.holds_norm; });
  return ResumePoint{.iteration = lowest, .finish_step = highest > lowest || somebody_has_norm};
}

Rerouted CountRerouted(const Plan& before, const Plan& after, const std::vector<WorkerId>& lost) {
  const Assignment assignment(after);
  Rerouted rerouted;
  for (const WorkerId worker : lost) {
    const WorkerSchedule* schedule = FindWorker(before.workers, worker);
    if (schedule == nullptr) continue;
    for (const Action& action : schedule->actions) {
      if (!HasMicroBatch(action.kind)) continue;
      rerouted.actions += action.kind == ActionKind::kBackward ? 2 : 1;
      if (action.kind != ActionKind::kForward) continue;
      const auto receiver = assignment.WorkerOf(action.stage, action.micro_batch);
      if (receiver) ++rerouted.micro_batches[*receiver];
    }
  }
  return rerouted;
}

}  // namespace recycle
