#include "recycle/planner/hill_climb.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

// Limits above these change nothing: more forwards, or more owed W's, never fit at once.
struct Ceilings {
  std::vector<int> open;
  std::vector<int> weights;
};

int FitsAtOnce(double capacity, double piece, int quota) {
  if (piece <= 0 || !std::isfinite(capacity)) return quota + 1;
  return static_cast<int>(std::min(capacity / piece, static_cast<double>(quota))) + 1;
}

Ceilings MakeCeilings(const FlatJob& job) {
  Ceilings ceilings;
  for (int i = 0; i < job.num_stages; ++i) {
    const auto s = static_cast<std::size_t>(i);
    const StageCosts& costs = job.stages[s];
    const double capacity = job.capacity[static_cast<std::size_t>(job.column[s])];
    ceilings.open.push_back(FitsAtOnce(capacity, costs.activation_bytes, job.Quota(i)));
    ceilings.weights.push_back(FitsAtOnce(capacity, costs.deferred_bytes, job.Quota(i)));
  }
  return ceilings;
}

// Rules with every limit written out, so that moves can start from it.
DispatchRules FilledIn(const DispatchRules& rules, const Ceilings& ceilings) {
  DispatchRules filled = rules;
  for (std::size_t i = 0; i < ceilings.open.size(); ++i) {
    filled.max_open[i] = std::min(filled.max_open[i], ceilings.open[i]);
    filled.min_open[i] = std::min(filled.min_open[i], ceilings.open[i]);
    filled.drain_weights[i] = std::min(filled.drain_weights[i], ceilings.weights[i]);
    filled.max_weights[i] = std::min(filled.max_weights[i], ceilings.weights[i]);
  }
  return filled;
}

class Mover {
 public:
  Mover(const Ceilings& ceilings, const SurrogateTimes& times, std::uint64_t seed)
      : ceilings_(ceilings), times_(times), prng_(seed) {}

  DispatchRules Move(const DispatchRules& from) {
    DispatchRules rules = from;
    const std::uint64_t changes = 1 + prng_.Below(3);
    for (std::uint64_t change = 0; change < changes; ++change) ChangeOne(rules);
    return rules;
  }

 private:
  void ChangeOne(DispatchRules& rules) {
    switch (prng_.Below(6)) {
      case 0:
        return ChangeRange(rules.max_open, ceilings_.open, 1);
      case 1:
        return ChangeRange(rules.min_open, ceilings_.open, 0);
      case 2:
        return ChangeRange(rules.drain_weights, ceilings_.weights, 1);
      case 3:
        return ChangeRange(rules.max_weights, ceilings_.weights, 1);
      case 4:
        rules.forward_lookahead = LookAhead(times_.forward_unit);
        return;
      case 5:
        rules.weight_lookahead = LookAhead(times_.weight_unit);
        return;
    }
  }

  std::int64_t LookAhead(std::int64_t unit) {
    const auto steps = static_cast<std::int64_t>(prng_.Below(8));
    return (unit * 15 * steps + 99) / 100;
  }

  void ChangeRange(std::vector<int>& limits, const std::vector<int>& ceilings, int floor) {
    const std::size_t first = prng_.Below(limits.size());
    std::size_t count = 1;
    if (prng_.Below(2) == 0) {
      count = 1 + prng_.Below(std::max<std::size_t>(2, limits.size() / 2));
    }
    int delta = prng_.Below(2) == 0 ? 1 : -1;
    const std::uint64_t size = prng_.Below(8);
    if (size < 2) delta *= 2;
    if (size == 7) delta *= std::max(2, ceilings[first] / 6);
    const std::size_t end = std::min(limits.size(), first + count);
    for (std::size_t i = first; i < end; ++i) {
      limits[i] = std::clamp(limits[i] + delta, floor, ceilings[i]);
    }
  }

  const Ceilings& ceilings_;
  const SurrogateTimes& times_;
  Prng prng_;
};

}  // namespace

DispatchRules RulesOf(const Recipe& recipe, const FlatJob& job, const SurrogateTimes& times) {
  return recipe.climbed.has_value() ? *recipe.climbed : MakeRules(recipe.policy, job, times);
}

Recipe HillClimb(const FlatJob& job, const Recipe& start, int runs, std::uint64_t seed,
                 BestOrder& best) {
  const Ceilings ceilings = MakeCeilings(job);
  ListScheduler scheduler(job, MakeSurrogate(job, start.policy.surrogate), start.affinity);
  Mover mover(ceilings, scheduler.times(), HashKeys({seed, 4711}));
  Recipe summit = start;
  Order order;
  DispatchRules current = FilledIn(RulesOf(start, job, scheduler.times()), ceilings);
  Ticks current_period = start.period;
  for (int run = 0; run < runs && !best.AtBound(); ++run) {
    const DispatchRules candidate = mover.Move(current);
    if (!scheduler.Run(candidate, order)) continue;
    const Ticks period = best.Offer(order);
    const Ticks threshold = current_period / (Ticks{250} * runs) * (runs - run);
    if (period > current_period + threshold) continue;
    current = candidate;
    current_period = period;
    if (period < summit.period) {
      summit.climbed = candidate;
      summit.period = period;
    }
  }
  return summit;
}

}  // namespace recycle
