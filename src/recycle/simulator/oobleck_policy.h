// oobleck [reconstruction]: pipeline templates (Jang et al., "Oobleck", SOSP 2023). All live
// workers train, in pipelines of different sizes, each of which cuts the layers evenly; micro-
// batches are spread so that all pipelines finish together. The published artifact's template
// search is replaced by even cuts, and the stages' times by ours without sends.
//
// oobleck-published, the same with its measured throughput: oobleck_published_policy.h.
#ifndef RECYCLE_SIMULATOR_OOBLECK_POLICY_H_
#define RECYCLE_SIMULATOR_OOBLECK_POLICY_H_

#include <map>

#include "recycle/simulator/place_policy.h"

namespace recycle {

class OobleckPolicy : public PlacePolicy {
 public:
  using PlacePolicy::PlacePolicy;
  std::string_view name() const override { return "oobleck"; }
  PlanInForce plan() const override { return {}; }
  std::string note() const override { return "reconstruction: even cuts of the layers"; }

 protected:
  Status UpdatePace() override;
  Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                     const Pace& before) override;
  Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                  const Pace& before) override;

 private:
  std::map<int, double> iteration_s_;  // by number of live workers
};

// Seconds of an iteration of `num_micro_batches` over pipelines of `live` workers in all, of at
// least `least_stages` workers each: the templates' least largest (nb + s - 1) * t(s). Infinity if
// no pipeline can be formed. `layer_s` = F + I + W of one of `layers` layers.
double TemplateIterationSeconds(int live, int least_stages, int layers, double layer_s,
                                int num_micro_batches);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_OOBLECK_POLICY_H_
