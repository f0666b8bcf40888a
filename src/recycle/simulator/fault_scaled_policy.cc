#include "recycle/simulator/fault_scaled_policy.h"

namespace recycle {

Status FaultScaledPolicy::UpdatePace() {
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(live_.num_pipelines()));
  const double live_share = static_cast<double>(live_.count()) / live_.num_places();
  pace_ = PaceOf(period);
  pace_.iterations_per_s *= live_share;
  pace_.batches_per_s *= live_share;
  return OkStatus();
}

Reaction FaultScaledPolicy::OnFailure(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                      const Pace& /*before*/) {
  return {};
}

Reaction FaultScaledPolicy::OnJoin(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                   const Pace& /*before*/) {
  return {};
}

}  // namespace recycle
