// What a loss costs: what the lost had been told to run of the iteration in progress, and who runs
// it now. Pure.
#ifndef RECYCLE_COORDINATOR_REGROUP_H_
#define RECYCLE_COORDINATOR_REGROUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/coordinator/events.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// What a Resume tells everybody to run.
struct AssignedWork {
  std::vector<OpenIteration> open;
  std::int32_t next_iteration = 0;
  std::shared_ptr<const Plan> plan;

  // The plan of `iteration`: its remainder, or the plan of whole iterations; nullptr if nothing of
  // it is left to do.
  const Plan* PlanOf(std::int32_t iteration) const;
};

// What `lost` were to run, by `before`, of the iterations that are open in `after` and of the one
// after them (somebody may have been ahead), as far as it has to be done again: nothing of
// committed stages. `iterations`: of the job.
std::vector<LostShare> FindLostShares(const AssignedWork& before, const AssignedWork& after,
                                      std::int32_t iterations, const std::vector<WorkerId>& lost);

// Micro-batches (by their forwards) of those shares, by who runs them in `after`.
std::map<WorkerId, int> CountReceivers(const std::vector<LostShare>& shares,
                                       const AssignedWork& after);

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_REGROUP_H_
