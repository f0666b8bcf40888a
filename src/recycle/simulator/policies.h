// All policies by name.
#ifndef RECYCLE_SIMULATOR_POLICIES_H_
#define RECYCLE_SIMULATOR_POLICIES_H_

#include <memory>
#include <string_view>
#include <vector>

#include "recycle/simulator/failure_policy.h"

namespace recycle {

// Every policy's name, in the order of reports.
const std::vector<std::string_view>& PolicyNames();

// Those that exist for a job: oobleck-published needs a model whose throughput was published.
std::vector<std::string_view> PolicyNamesFor(const SimulatedJob& job,
                                             const PolicyConstants& constants);

// OK if `name` is a policy of this job. Error: kInvalidArgument, as MakePolicy.
Status CheckPolicyName(std::string_view name, const SimulatedJob& job,
                       const PolicyConstants& constants);

// Error: kInvalidArgument for a name that is none (naming the nearest), or for a policy that does
// not exist for this job.
StatusOr<std::unique_ptr<FailurePolicy>> MakePolicy(std::string_view name,
                                                    const PolicyInput& input);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_POLICIES_H_
