// elastic: elastic batching. A pipeline that lost a worker leaves until all its places are live
// again; the others train a smaller batch at the same pace.
#ifndef RECYCLE_SIMULATOR_ELASTIC_POLICY_H_
#define RECYCLE_SIMULATOR_ELASTIC_POLICY_H_

#include "recycle/simulator/place_policy.h"

namespace recycle {

class ElasticPolicy : public PlacePolicy {
 public:
  using PlacePolicy::PlacePolicy;
  std::string_view name() const override { return "elastic"; }
  PlanInForce plan() const override;

 protected:
  Status UpdatePace() override;
  Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                     const Pace& before) override;
  Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                  const Pace& before) override;

 private:
  int complete_ = 0;         // pipelines with all their workers
  int complete_before_ = 0;  // until the last event
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_ELASTIC_POLICY_H_
