// bamboo [reconstruction]: redundant computation (Thorpe et al., "Bamboo", NSDI 2023). Every worker
// also does its successor's forward, so a dead worker's neighbour takes over without loss; two
// neighbours lost within one reconfiguration send the job back to a checkpoint. The redundancy
// costs throughput all the time, and memory: where it does not fit, nothing is trained.
#ifndef RECYCLE_SIMULATOR_BAMBOO_POLICY_H_
#define RECYCLE_SIMULATOR_BAMBOO_POLICY_H_

#include <vector>

#include "recycle/simulator/place_policy.h"

namespace recycle {

class BambooPolicy : public PlacePolicy {
 public:
  explicit BambooPolicy(const PolicyInput& input);
  std::string_view name() const override { return "bamboo"; }
  PlanInForce plan() const override;
  bool out_of_memory() const override { return !input_.job.bamboo_fits; }
  std::string note() const override;

 protected:
  Status UpdatePace() override;
  Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                     const Pace& before) override;
  Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                  const Pace& before) override;

 private:
  // A neighbour of `place` in its pipeline's ring is dead, and died within one reconfiguration.
  bool NeighbourJustDied(int place, double now_s) const;

  int pipelines_ = 0;
  int pipelines_before_ = 0;
  std::vector<double> died_s_;  // by place; when its worker died last
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_BAMBOO_POLICY_H_
