// fault-scaled: fault-free throughput times live / total workers, at no other cost. What a system
// would do that loses exactly what died.
#ifndef RECYCLE_SIMULATOR_FAULT_SCALED_POLICY_H_
#define RECYCLE_SIMULATOR_FAULT_SCALED_POLICY_H_

#include "recycle/simulator/place_policy.h"

namespace recycle {

class FaultScaledPolicy : public PlacePolicy {
 public:
  using PlacePolicy::PlacePolicy;
  std::string_view name() const override { return "fault-scaled"; }
  PlanInForce plan() const override { return PlanOver(live_.num_pipelines()); }

 protected:
  Status UpdatePace() override;
  Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                     const Pace& before) override;
  Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                  const Pace& before) override;
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_FAULT_SCALED_POLICY_H_
