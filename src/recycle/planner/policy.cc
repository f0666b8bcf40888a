#include "recycle/planner/policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/base/prng.h"

namespace recycle {
namespace {

// Fast stages' durations and sends of a surrogate, in the job's ticks.
struct StageTimes {
  std::vector<std::array<std::int64_t, 3>> fiw;
  std::vector<std::int64_t> send_forward;
  std::vector<std::int64_t> send_backward;
};

StageTimes PlannedTimes(const FlatJob& job, int number) {
  StageTimes times;
  times.send_forward = job.send_forward;
  times.send_backward = job.send_backward;
  for (std::size_t i = 0; i < job.stages.size(); ++i) {
    const StageCosts& costs = job.stages[i];
    std::array<std::int64_t, 3> fiw = {costs.forward, costs.backward_input, costs.backward_weight};
    const std::int64_t third = (fiw[0] + fiw[1] + fiw[2]) / 3;
    if (number == 1 || number == 3) {
      fiw = {third, third, third};
    } else if (number == 4) {
      const std::int64_t longer = std::max(fiw[0], fiw[1]) + job.send_forward[i];
      fiw = {longer, longer, std::min(longer, fiw[2])};
    }
    times.fiw.push_back(fiw);
  }
  if (number == 1 || number == 2 || number == 4) {
    std::fill(times.send_forward.begin(), times.send_forward.end(), 0);
    std::fill(times.send_backward.begin(), times.send_backward.end(), 0);
  }
  return times;
}

// A divisor that keeps times short: the common divisor of all durations where that is enough (then
// nothing is rounded), else a thousandth of the mean duration. The longest time, times `slowest`,
// comes to at most kMaxRing ticks, which the scheduler's event queue has room for.
std::int64_t TickSize(const StageTimes& times, double slowest) {
  std::int64_t common = 0;
  std::int64_t sum = 0;
  std::int64_t longest = 0;
  for (const auto& fiw : times.fiw) {
    for (const std::int64_t t : fiw) {
      common = std::gcd(common, t);
      sum += t;
    }
    longest = std::max(longest, fiw[0] + fiw[1] + fiw[2]);
  }
  for (std::size_t i = 0; i < times.send_forward.size(); ++i) {
    common = std::gcd(std::gcd(common, times.send_forward[i]), times.send_backward[i]);
    longest = std::max({longest, times.send_forward[i], times.send_backward[i]});
  }
  if (common == 0) return 1;
  constexpr std::int64_t kExactRing = 1 << 12;
  constexpr std::int64_t kMaxRing = 1 << 20;
  const auto scaled = static_cast<std::int64_t>(std::ceil(static_cast<double>(longest) * slowest));
  if (scaled / common < kExactRing && slowest == 1.0) return common;
  const auto count = static_cast<std::int64_t>(3 * times.fiw.size());
  return std::max({sum / count / 1000, scaled / kMaxRing, common});
}

std::int64_t Rounded(std::int64_t ticks, std::int64_t size) { return (ticks + size / 2) / size; }

std::vector<Policy> MakeGrid() {
  std::vector<Policy> grid;
  for (int surrogate = 0; surrogate < kNumSurrogates; ++surrogate) {
    for (const int max_open : {Policy::kOff, 1000, 1300, 1700}) {
      for (const int min_open : {Policy::kOff, 500, 700, 850, 1000}) {
        for (const int shift : {0, -1, 1}) {
          if (min_open == Policy::kOff && shift != 0) continue;
          for (const DrainRule drain :
               {DrainRule::kOff, DrainRule::kStage, DrainRule::kHalfStage}) {
            for (const int forward : {0, 300}) {
              for (const int weight : {0, 400, 900}) {
                grid.push_back({max_open, min_open, shift, drain, forward, weight, surrogate});
              }
            }
          }
        }
      }
    }
  }
  constexpr std::uint64_t kGridSeed = 936;
  Prng(kGridSeed).Shuffle(grid);
  return grid;
}

}  // namespace

SurrogateTimes MakeSurrogate(const FlatJob& job, int number) {
  RC_CHECK(number >= 0 && number < kNumSurrogates) << "surrogate " << number;
  const StageTimes planned = PlannedTimes(job, number);
  const double slowest = std::max(1.0, *std::max_element(job.slow.begin(), job.slow.end()));
  const std::int64_t size = TickSize(planned, slowest);
  SurrogateTimes times;
  times.durations.resize(Index(job.num_stages * job.num_pipelines));
  for (int stage = 0; stage < job.num_stages; ++stage) {
    const auto& fiw = planned.fiw[Index(stage)];
    for (int k = 0; k < job.num_pipelines; ++k) {
      auto& own = times.durations[Index(stage * job.num_pipelines + k)];
      const double factor = job.slow[Index(job.WorkerOf(stage, k))];
      for (std::size_t kind = 0; kind < 3; ++kind) {
        const std::int64_t ticks =
            factor == 1.0 ? fiw[kind] : std::llround(static_cast<double>(fiw[kind]) * factor);
        own[kind] = Rounded(ticks, size);
      }
      own[3] = own[1] + own[2];
    }
    times.send_forward.push_back(Rounded(planned.send_forward[Index(stage)], size));
    times.send_backward.push_back(Rounded(planned.send_backward[Index(stage)], size));
  }
  times.forward_unit = Rounded(planned.fiw[0][0], size);
  times.weight_unit = Rounded(planned.fiw[0][2], size);
  return times;
}

bool IsRedundantSurrogate(const FlatJob& job, int number) {
  if (number < 2) return false;
  const auto is_zero = [](Ticks ticks) { return ticks == 0; };
  return std::all_of(job.send_forward.begin(), job.send_forward.end(), is_zero) &&
         std::all_of(job.send_backward.begin(), job.send_backward.end(), is_zero);
}

DispatchRules MakeRules(const Policy& policy, const FlatJob& job, const SurrogateTimes& times) {
  DispatchRules rules;
  std::int64_t most = 1;  // micro-batches of the busiest worker
  for (int i = 0; i < job.num_stages; ++i) most = std::max<std::int64_t>(most, job.Quota(i));
  for (int i = 0; i < job.num_stages; ++i) {
    const std::int64_t depth = job.num_stages - i;
    rules.max_open.push_back(policy.max_open == Policy::kOff
                                 ? DispatchRules::kUnlimited
                                 : static_cast<int>((policy.max_open * depth + 999) / 1000));
    int low = 0;
    if (policy.min_open != Policy::kOff) {
      // floor(ql * depth * (N / live) / most + 1/2), in integers.
      const std::int64_t denominator = 1000 * most * job.LiveAt(i);
      const std::int64_t numerator = policy.min_open * depth * job.num_micro_batches;
      low = static_cast<int>((2 * numerator + denominator) / (2 * denominator));
      low = std::max(1, low + policy.min_open_shift);
    }
    rules.min_open.push_back(low);
    switch (policy.drain) {
      case DrainRule::kOff:
        rules.drain_weights.push_back(DispatchRules::kUnlimited);
        break;
      case DrainRule::kStage:
        rules.drain_weights.push_back(i + 1);
        break;
      case DrainRule::kHalfStage:
        rules.drain_weights.push_back(std::max(1, (i + 1) / 2));
        break;
    }
    rules.max_weights.push_back(DispatchRules::kUnlimited);
  }
  rules.forward_lookahead = (policy.forward_lookahead * times.forward_unit + 999) / 1000;
  rules.weight_lookahead = (policy.weight_lookahead * times.weight_unit + 999) / 1000;
  return rules;
}

const std::vector<Policy>& HeadPolicies() {
  using enum DrainRule;
  constexpr int kNone = Policy::kOff;
  static const auto* const kPolicies = new std::vector<Policy>{
      {kNone, 1000, 0, kStage, 0, 0, 1},  {kNone, kNone, 0, kOff, 0, 0, 1},
      {kNone, 1000, 0, kStage, 0, 0, 0},  {kNone, kNone, 0, kOff, 0, 0, 0},
      {kNone, 850, -1, kOff, 300, 0, 3},  {1700, 1000, 1, kStage, 300, 900, 0},
      {1700, 1000, 1, kStage, 300, 0, 1}, {kNone, 500, 0, kOff, 300, 900, 0},
      {kNone, 2000, 0, kOff, 0, 900, 0},  {kNone, 1500, 0, kOff, 0, 900, 0},
      {kNone, 2000, 0, kOff, 0, 900, 3},  {kNone, 1500, 0, kOff, 0, 900, 3}};
  return *kPolicies;
}

const std::vector<Policy>& GridPolicies() {
  static const auto* const kPolicies = new std::vector<Policy>(MakeGrid());
  return *kPolicies;
}

}  // namespace recycle
