// The decisions of one regroup: where to go on, and what moved from the dead to whom. Pure.
#ifndef RECYCLE_COORDINATOR_REGROUP_H_
#define RECYCLE_COORDINATOR_REGROUP_H_

#include <cstdint>
#include <map>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct ResumePoint {
  std::int32_t iteration = 0;  // the least version of all members
  // Somebody has the norm of that iteration, or has made its step: everybody makes it.
  bool finish_step = false;
};

// `ledgers`: one per member, not empty. Nobody steps an iteration before it has its global norm,
// and the norm needs every stage's reduced gradient: so either somebody has it, and then everyone
// holds the gradients to make that step, or nobody has stepped. Error: kFailedPrecondition if
// versions differ by more than one, or leave 0..`iterations`.
StatusOr<ResumePoint> DecideResume(const std::map<WorkerId, Ledger>& ledgers,
                                   std::int32_t iterations);

// The work of one iteration that `lost` had in `before`.
struct Rerouted {
  int actions = 0;                        // B counts 2
  std::map<WorkerId, int> micro_batches;  // forwards, by who runs them in `after`
};
Rerouted CountRerouted(const Plan& before, const Plan& after, const std::vector<WorkerId>& lost);

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_REGROUP_H_
