// oobleck-published: Oobleck by the throughput its authors measured on 30 down to 15 A40 nodes
// (SymbioticLab/Oobleck, branch sosp23-artifact, oobleck_simulator.py), relative to all nodes.
// Only for the models that have a curve.
#ifndef RECYCLE_SIMULATOR_OOBLECK_PUBLISHED_POLICY_H_
#define RECYCLE_SIMULATOR_OOBLECK_PUBLISHED_POLICY_H_

#include <vector>

#include "recycle/simulator/oobleck_policy.h"

namespace recycle {

class OobleckPublishedPolicy : public OobleckPolicy {
 public:
  // `curve` outlives the policy.
  OobleckPublishedPolicy(const PolicyInput& input, const std::vector<double>& curve);
  std::string_view name() const override { return "oobleck-published"; }
  std::string note() const override;

 protected:
  Status UpdatePace() override;

 private:
  const std::vector<double>& curve_;
};

// `curve` at 30 * live_share nodes, over its value at 30: linear between points, 0 below 15.
double PublishedShare(const std::vector<double>& curve, double live_share);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_OOBLECK_PUBLISHED_POLICY_H_
