// varuna: checkpoint and restart with another number of pipelines ("job morphing"; Athlur et al.,
// "Varuna", EuroSys 2022), a checkpoint every ten iterations or Young's interval, whichever is
// longer. Constants: Oobleck's artifact.
#ifndef RECYCLE_SIMULATOR_VARUNA_POLICY_H_
#define RECYCLE_SIMULATOR_VARUNA_POLICY_H_

#include <memory>

#include "recycle/simulator/restart_policy.h"

namespace recycle {

std::unique_ptr<FailurePolicy> MakeVarunaPolicy(const PolicyInput& input);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_VARUNA_POLICY_H_
