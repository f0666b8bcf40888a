// Dispatch policies: what steers the list scheduler, as a handful of numbers.
//
// A policy is portable: it holds thousandths and names, not limits of one job, so that a plan table
// can store it and regenerate its schedule bit for bit. `MakeRules` turns it into per-stage limits
// for a job; the hill climb then moves those limits one by one.
//
// A *surrogate* is a set of durations under which orders are built (the exact ones only time them):
// orders built with equal durations and no sends are often better than those built with the real
// ones.
#ifndef RECYCLE_PLANNER_POLICY_H_
#define RECYCLE_PLANNER_POLICY_H_

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "recycle/planner/flat_job.h"

namespace recycle {

// When P0 prefers a deferred W to waiting for an I.
enum class DrainRule : std::uint8_t { kOff, kStage, kHalfStage };  // never; i + 1; (i + 1) / 2

struct Policy {
  static constexpr int kOff = -1;
  int max_open = kOff;                // qm, thousandths of (PP - i)
  int min_open = kOff;                // ql, thousandths
  int min_open_shift = 0;             // qo, whole micro-batches
  DrainRule drain = DrainRule::kOff;  // dB
  int forward_lookahead = 0;          // dF, thousandths of the surrogate's F of stage 0
  int weight_lookahead = 0;           // dW, thousandths of its W
  int surrogate = 0;                  // 0..4, see SurrogateTimes
  bool operator==(const Policy&) const = default;
};

inline constexpr int kNumSurrogates = 5;

// Durations an order is built with, in ticks of their own: coarse enough for short event queues.
struct SurrogateTimes {
  // By (stage * DP + pipeline), indexed by ActionKind; stragglers are slower here too.
  std::vector<std::array<std::int64_t, 4>> durations;
  std::vector<std::int64_t> send_forward;   // by stage
  std::vector<std::int64_t> send_backward;  // by stage
  std::int64_t forward_unit = 0;            // F of stage 0
  std::int64_t weight_unit = 0;             // W of stage 0
};

// Surrogate `number` of `job` (u = a third of the stage's F + I + W): 0 the real durations; 1 F = I
// = W = u and no sends; 2 real, no sends; 3 u with the real sends; 4 F = I = max(F, I) + send, W =
// the lesser of that and W, no sends.
SurrogateTimes MakeSurrogate(const FlatJob& job, int number);

// True if the job's surrogate `number` is the same as a lower one (no sends: 2..4 add nothing).
bool IsRedundantSurrogate(const FlatJob& job, int number);

// Limits of the dispatch rules, per stage.
struct DispatchRules {
  static constexpr int kUnlimited = std::numeric_limits<int>::max();
  std::vector<int> max_open;           // qmax: forwards in flight, at most
  std::vector<int> min_open;           // qlow: below this a forward comes before an I
  std::vector<int> drain_weights;      // dB: so many deferred W's come before an I
  std::vector<int> max_weights;        // dmax: with so many deferred W's no forward is started
  std::int64_t forward_lookahead = 0;  // surrogate ticks: no F if an I arrives within them
  std::int64_t weight_lookahead = 0;
};

DispatchRules MakeRules(const Policy& policy, const FlatJob& job, const SurrogateTimes& times);

// The policies that are tried first, best first.
const std::vector<Policy>& HeadPolicies();

// The whole grid (936 policies, 5 surrogates), in a fixed pseudo-random order.
const std::vector<Policy>& GridPolicies();

}  // namespace recycle

#endif  // RECYCLE_PLANNER_POLICY_H_
