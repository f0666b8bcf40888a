#include "recycle/plan/memory_meter.h"

#include <algorithm>

#include "recycle/base/check.h"

namespace recycle {

MemoryMeter::MemoryMeter(const Plan& plan, StageId column)
    : plan_(plan), stages_(StagesOfColumn(plan.parallel, column)), held_(stages_.size()) {}

double MemoryMeter::Run(const Action& action) {
  Held& held = HeldAt(action.stage);
  switch (action.kind) {
    case ActionKind::kForward:
      ++held.full;
      return InUse();
    case ActionKind::kBackwardInput:
      --held.full;
      ++held.deferred;
      return 0;
    case ActionKind::kBackwardWeight:
      --held.deferred;
      return 0;
    case ActionKind::kBackward:
      --held.full;
      return 0;
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      return 0;
  }
  return 0;
}

double MemoryMeter::Regenerate(const std::vector<Action>& actions, std::size_t position) {
  const Action& action = actions[position];
  Held& held = HeldAt(action.stage);
  if (action.kind != ActionKind::kForward) {
    if (HasMicroBatch(action.kind) && held.full > 0) --held.full;
    return 0;
  }
  ++held.full;
  const double bytes = InUse();
  const Action input{ActionKind::kBackwardInput, action.stage, action.micro_batch};
  const auto rest = actions.begin() + static_cast<std::ptrdiff_t>(position);
  if (std::find(rest, actions.end(), input) == actions.end()) --held.full;
  return bytes;
}

MemoryMeter::Held& MemoryMeter::HeldAt(StageId stage) {
  std::size_t local = 0;
  while (local + 1 < stages_.size() && stages_[local] != stage) ++local;
  RC_CHECK(stages_[local] == stage) << "stage " << stage << " is on another worker";
  return held_[local];
}

double MemoryMeter::InUse() const {
  double bytes = 0;
  for (std::size_t local = 0; local < stages_.size(); ++local) {
    const StageCosts& costs = plan_.costs.stages[static_cast<std::size_t>(stages_[local].value())];
    bytes += static_cast<double>(held_[local].full) * costs.activation_bytes +
             static_cast<double>(held_[local].deferred) * costs.deferred_bytes;
  }
  return bytes;
}

}  // namespace recycle
