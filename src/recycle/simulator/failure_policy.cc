#include "recycle/simulator/failure_policy.h"

#include <cmath>

namespace recycle {

FailurePolicy::FailurePolicy(const PolicyInput& input)
    : input_(input),
      live_(input.job.parallel),
      checkpointing_{.interval_s = CheckpointsOf(input.constants.restart).interval_s} {}

Pace FailurePolicy::PaceOf(Ticks period, double share) {
  const double iterations_per_s = 1 / Seconds(period);
  return {.iterations_per_s = iterations_per_s,
          .batches_per_s = iterations_per_s * share,
          .period_s = Seconds(period)};
}

Checkpointing FailurePolicy::CheckpointsOf(const RestartConstants& constants) const {
  const double interval_s = constants.interval_s > 0
                                ? constants.interval_s
                                : std::sqrt(2 * constants.checkpoint_s * input_.mtbf_s);
  return {.interval_s = interval_s, .cost_s = constants.checkpoint_s};
}

std::vector<int> FailurePolicy::PlacesOf(int block) const {
  const int size = input_.job.places_per_node();
  std::vector<int> places;
  places.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) places.push_back(block * size + i);
  return places;
}

}  // namespace recycle
