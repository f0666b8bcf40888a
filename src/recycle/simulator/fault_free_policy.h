// fault-free: 1F1B with every worker, whatever happens. The reference of goodput.
#ifndef RECYCLE_SIMULATOR_FAULT_FREE_POLICY_H_
#define RECYCLE_SIMULATOR_FAULT_FREE_POLICY_H_

#include "recycle/simulator/place_policy.h"

namespace recycle {

class FaultFreePolicy : public PlacePolicy {
 public:
  using PlacePolicy::PlacePolicy;
  std::string_view name() const override { return "fault-free"; }
  PlanInForce plan() const override { return PlanOver(live_.num_pipelines()); }

 protected:
  Status UpdatePace() override;
  Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                     const Pace& before) override;
  Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                  const Pace& before) override;
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_FAULT_FREE_POLICY_H_
