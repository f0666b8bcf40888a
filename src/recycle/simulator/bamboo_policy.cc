#include "recycle/simulator/bamboo_policy.h"

#include <algorithm>

namespace recycle {

BambooPolicy::BambooPolicy(const PolicyInput& input)
    : PlacePolicy(input),
      died_s_(static_cast<std::size_t>(input.job.num_places()),
              -std::numeric_limits<double>::infinity()) {}

PlanInForce BambooPolicy::plan() const {
  return out_of_memory() ? PlanInForce{} : PlanOver(pipelines_);
}

std::string BambooPolicy::note() const {
  return out_of_memory() ? "redundant parameters and activations do not fit: nothing is trained"
                         : "reconstruction";
}

Status BambooPolicy::UpdatePace() {
  pipelines_before_ = pipelines_;
  pipelines_ = PossiblePipelines();
  pace_ = {};
  if (pipelines_ == 0 || out_of_memory()) return OkStatus();
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(pipelines_));
  pace_ = PaceOf(period);
  pace_.iterations_per_s *= input_.constants.bamboo_throughput;
  pace_.batches_per_s *= input_.constants.bamboo_throughput;
  return OkStatus();
}

bool BambooPolicy::NeighbourJustDied(int place, double now_s) const {
  const int stages = live_.num_stages();
  if (stages == 1) return false;
  const int first = live_.PipelineOf(place) * stages;
  for (const int step : {1, stages - 1}) {
    const int neighbour = first + (live_.StageOf(place) + step) % stages;
    const double since_s = now_s - died_s_[static_cast<std::size_t>(neighbour)];
    if (!live_.IsLive(neighbour) && since_s < input_.constants.bamboo_reconfigure_s) return true;
  }
  return false;
}

Reaction BambooPolicy::OnFailure(const std::vector<int>& places, const Moment& moment,
                                 const Pace& /*before*/) {
  for (const int place : places) died_s_[static_cast<std::size_t>(place)] = moment.now_s;
  const bool lost = pipelines_ == 0 || std::any_of(places.begin(), places.end(), [&](int place) {
                      return NeighbourJustDied(place, moment.now_s);
                    });
  const double detect_s = input_.constants.bamboo_detect_s;
  if (lost) {
    return {.stall_s = detect_s + input_.constants.restart.restart_s, .back_to_checkpoint = true};
  }
  return {.stall_s = detect_s + input_.constants.bamboo_reconfigure_s};
}

Reaction BambooPolicy::OnJoin(const std::vector<int>& /*places*/, const Moment& moment,
                              const Pace& /*before*/) {
  if (pipelines_ <= pipelines_before_) return {};
  if (pipelines_before_ == 0 && !moment.stalled) {
    return {.stall_s = input_.constants.restart.restart_s};
  }
  return StallOnJoin(input_.constants.bamboo_reconfigure_s, moment);
}

}  // namespace recycle
