#include "recycle/simulator/fault_free_policy.h"

namespace recycle {

Status FaultFreePolicy::UpdatePace() {
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(live_.num_pipelines()));
  pace_ = PaceOf(period);
  return OkStatus();
}

Reaction FaultFreePolicy::OnFailure(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                    const Pace& /*before*/) {
  return {};
}

Reaction FaultFreePolicy::OnJoin(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                 const Pace& /*before*/) {
  return {};
}

}  // namespace recycle
