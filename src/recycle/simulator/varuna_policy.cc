#include "recycle/simulator/varuna_policy.h"

namespace recycle {

std::unique_ptr<FailurePolicy> MakeVarunaPolicy(const PolicyInput& input) {
  return std::make_unique<RestartPolicy>(
      input, RestartOptions{.name = "varuna",
                            .most_pipelines = input.job.parallel.data,
                            .constants = input.constants.varuna,
                            .least_iterations = input.constants.varuna_iterations});
}

}  // namespace recycle
