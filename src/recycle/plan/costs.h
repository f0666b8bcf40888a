// What actions cost: durations in ticks and memory in bytes, per stage.
//
// A tick is 1e-6 of the cost unit (1 ns when the unit is ms). Every duration is rounded to ticks
// once, when it is read; all arithmetic after that is integer, so that equal inputs give equal
// bytes on every machine.
#ifndef RECYCLE_PLAN_COSTS_H_
#define RECYCLE_PLAN_COSTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/action.h"

namespace recycle {

using Ticks = std::int64_t;
inline constexpr Ticks kTicksPerUnit = 1'000'000;

// Rounds to the nearest tick. Error: kInvalidArgument if `value` is negative, not finite, or above
// 9e6 units (so that sums over whole jobs cannot overflow); `name` says what it is.
StatusOr<Ticks> ToTicks(double value, const std::string& name);
inline double ToUnits(Ticks ticks) {
  return static_cast<double>(ticks) / static_cast<double>(kTicksPerUnit);
}

// Costs of one stage. Durations in ticks, memory in bytes (or in units of one micro-batch's
// activation, when the costs came from --cost: doubles either way).
struct StageCosts {
  Ticks forward = 0;
  Ticks backward_input = 0;
  Ticks backward_weight = 0;
  Ticks optimizer = 0;
  Ticks all_reduce = 0;
  double activation_bytes = 0;           // taken by F at its start
  double deferred_bytes = 0;             // what is left of it after I, until W; <= activation_bytes
  std::optional<double> capacity_bytes;  // absent: no limit
  // What one frame to a neighbour, the parameters, and parameters + moments weigh; 0 = unknown.
  double boundary_bytes = 0;
  double parameter_bytes = 0;
  double state_bytes = 0;
  bool operator==(const StageCosts&) const = default;
};

// How long an F, I, W or B takes; 0 for what ends an iteration.
Ticks DurationOf(const StageCosts& costs, ActionKind kind);

struct CostProfile {
  std::string unit = "ms";
  std::vector<StageCosts> stages;    // one per stage (PP * virtual stages)
  std::vector<Ticks> send_forward;   // one per boundary between stage i and i + 1
  std::vector<Ticks> send_backward;  // likewise
  bool operator==(const CostProfile&) const = default;
};

}  // namespace recycle

#endif  // RECYCLE_PLAN_COSTS_H_
