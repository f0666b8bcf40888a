#include "recycle/simulator/spares_policy.h"

namespace recycle {

std::unique_ptr<FailurePolicy> MakeSparesPolicy(const PolicyInput& input) {
  // The most pipelines that leave PP places spare.
  return std::make_unique<RestartPolicy>(
      input, RestartOptions{.name = "spares",
                            .most_pipelines = input.job.parallel.data - 1,
                            .constants = input.constants.spares});
}

}  // namespace recycle
