#include "recycle/plan/costs.h"

#include <fmt/format.h>

#include <cmath>

namespace recycle {

StatusOr<Ticks> ToTicks(double value, const std::string& name) {
  constexpr double kMaxUnits = 9e6;
  if (!std::isfinite(value) || value < 0 || value > kMaxUnits) {
    return absl::InvalidArgumentError(fmt::format(
        "{} = {}: must be a number from 0 to {:.0f}; choose a larger unit for longer durations",
        name, value, kMaxUnits));
  }
  return std::llround(value * static_cast<double>(kTicksPerUnit));
}

Ticks DurationOf(const StageCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return costs.forward;
    case ActionKind::kBackwardInput:
      return costs.backward_input;
    case ActionKind::kBackwardWeight:
      return costs.backward_weight;
    case ActionKind::kBackward:
      return costs.backward_input + costs.backward_weight;
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      return 0;
  }
  return 0;
}

}  // namespace recycle
