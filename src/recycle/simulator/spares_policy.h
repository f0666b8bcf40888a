// spares: checkpoint and restart with one pipeline's worth of workers kept idle to stand in. It
// never trains with more than the pipelines that leave the spares over.
#ifndef RECYCLE_SIMULATOR_SPARES_POLICY_H_
#define RECYCLE_SIMULATOR_SPARES_POLICY_H_

#include <memory>

#include "recycle/simulator/restart_policy.h"

namespace recycle {

std::unique_ptr<FailurePolicy> MakeSparesPolicy(const PolicyInput& input);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_SPARES_POLICY_H_
