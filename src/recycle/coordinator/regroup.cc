#include "recycle/coordinator/regroup.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace recycle {
namespace {

bool IsCommitted(const Plan& plan, StageId stage) {
  return std::count(plan.committed.begin(), plan.committed.end(), stage) > 0;
}

// What `worker` has done before `plan` and does by it, without regenerations and step actions.
std::vector<Action> ShareOf(const Plan& plan, WorkerId worker) {
  std::vector<Action> share;
  for (const InitialState& state : plan.initial) {
    if (state.worker == worker) share = state.done;
  }
  const WorkerSchedule* schedule = FindWorker(plan.workers, worker);
  if (schedule == nullptr || IsCommitted(plan, worker.stage)) return share;
  std::copy_if(schedule->actions.begin(), schedule->actions.end(), std::back_inserter(share),
               [](const Action& action) { return HasMicroBatch(action.kind); });
  return share;
}

}  // namespace

const Plan* AssignedWork::PlanOf(std::int32_t iteration) const {
  for (const OpenIteration& entry : open) {
    if (entry.iteration == iteration) return entry.rest.get();
  }
  return iteration >= next_iteration ? plan.get() : nullptr;
}

std::vector<LostShare> FindLostShares(const AssignedWork& before, const AssignedWork& after,
                                      std::int32_t iterations, const std::vector<WorkerId>& lost) {
  std::vector<LostShare> shares;
  if (before.plan == nullptr) return shares;
  const std::int32_t next = after.next_iteration;
  const std::int32_t first = after.open.empty() ? next : after.open.front().iteration;
  for (std::int32_t t = first; t <= std::min(next, iterations - 1); ++t) {
    const Plan* was = before.PlanOf(t);
    const Plan* is = after.PlanOf(t);
    if (was == nullptr || is == nullptr) continue;
    for (const WorkerId worker : lost) {
      if (IsCommitted(*is, worker.stage)) continue;
      const bool ahead = t == next && t > first;
      if (ahead && !IsCommitted(*after.PlanOf(t - 1), worker.stage)) continue;
      std::vector<Action> actions = ShareOf(*was, worker);
      if (!actions.empty()) shares.push_back({worker, t, std::move(actions), ahead});
    }
  }
  return shares;
}

std::map<WorkerId, int> CountReceivers(const std::vector<LostShare>& shares,
                                       const AssignedWork& after) {
  std::map<WorkerId, int> receivers;
  std::optional<std::int32_t> iteration;
  std::optional<Assignment> assignment;
  for (const LostShare& share : shares) {
    const Plan* plan = after.PlanOf(share.iteration);
    if (plan == nullptr) continue;
    if (iteration != share.iteration) {
      iteration = share.iteration;
      assignment.emplace(*plan);
    }
    for (const Action& action : share.actions) {
      if (action.kind != ActionKind::kForward) continue;
      const auto receiver = assignment->WorkerOf(action.stage, action.micro_batch);
      if (receiver) ++receivers[*receiver];
    }
  }
  return receivers;
}

}  // namespace recycle
