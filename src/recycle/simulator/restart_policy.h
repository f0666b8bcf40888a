// restart: checkpoint and restart, the baseline everybody has. Whole pipelines train; any failure
// stops the job, which loads the last checkpoint and goes on with the pipelines that the live
// workers can form. Checkpoints at Young's interval. Also the body of spares and varuna, which
// differ in constants and in how many pipelines they ever use.
#ifndef RECYCLE_SIMULATOR_RESTART_POLICY_H_
#define RECYCLE_SIMULATOR_RESTART_POLICY_H_

#include <memory>

#include "recycle/simulator/place_policy.h"

namespace recycle {

struct RestartOptions {
  std::string_view name;
  int most_pipelines = 1;       // never more, whoever is live
  RestartConstants constants;   // detection, restart, checkpoint
  double least_iterations = 0;  // between checkpoints
};

class RestartPolicy : public PlacePolicy {
 public:
  RestartPolicy(const PolicyInput& input, const RestartOptions& options);
  std::string_view name() const override { return options_.name; }
  Status Start(const std::vector<bool>& filled_blocks) override;
  PlanInForce plan() const override { return PlanOver(pipelines_); }

 protected:
  Status UpdatePace() override;
  Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                     const Pace& before) override;
  Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                  const Pace& before) override;

 private:
  const RestartOptions options_;
  int pipelines_ = 0;         // d
  int pipelines_before_ = 0;  // d until the last event
};

std::unique_ptr<FailurePolicy> MakeRestartPolicy(const PolicyInput& input);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_RESTART_POLICY_H_
