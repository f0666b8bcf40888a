#include "recycle/simulator/place_policy.h"

#include <algorithm>

namespace recycle {

Status PlacePolicy::Start(const std::vector<bool>& filled_blocks) {
  for (std::size_t block = 0; block < filled_blocks.size(); ++block) {
    if (filled_blocks[block]) continue;
    for (const int place : PlacesOf(static_cast<int>(block))) live_.Set(place, false);
  }
  return UpdatePace();
}

StatusOr<Reaction> PlacePolicy::Fail(int block, const Moment& moment) {
  const std::vector<int> places = PlacesOf(block);
  const Pace before = pace_;
  for (const int place : places) live_.Set(place, false);
  RC_RETURN_IF_ERROR(UpdatePace());
  return OnFailure(places, moment, before);
}

StatusOr<Reaction> PlacePolicy::Join(int block, const Moment& moment) {
  const std::vector<int> places = PlacesOf(block);
  const Pace before = pace_;
  for (const int place : places) live_.Set(place, true);
  RC_RETURN_IF_ERROR(UpdatePace());
  return OnJoin(places, moment, before);
}

StatusOr<Ticks> PlacePolicy::PeriodOver(int pipelines) const {
  return input_.planner.OneFOneBPeriod(PlanOver(pipelines).micro_batches);
}

PlanInForce PlacePolicy::PlanOver(int pipelines) const {
  if (pipelines == 0) return {};
  return {.kind = PlanInForce::Kind::kOneFOneB,
          .pipelines = pipelines,
          .micro_batches = (input_.job.num_micro_batches() + pipelines - 1) / pipelines};
}

int PlacePolicy::PossiblePipelines() const {
  return std::min(live_.num_pipelines(), live_.count() / live_.num_stages());
}

Reaction StallOnJoin(double stall_s, const Moment& moment) {
  if (moment.stalled) return {.stall_again = true};
  return {.stall_s = stall_s};
}

}  // namespace recycle
