// What a worker's memory holds whatever its schedule: all but activations and the boundary log.
// Pure.
#ifndef RECYCLE_APP_STANDING_MEMORY_H_
#define RECYCLE_APP_STANDING_MEMORY_H_

#include <map>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/plan/costs.h"

namespace recycle {

struct JobConfig;

struct StandingMemory {
  double state_bytes = 0;     // parameters + moments
  double gradient_bytes = 0;  // its own sum of gradients, and the reduced one
  double save_bytes = 0;      // the copy of its share that goes into a checkpoint
  double snapshot_bytes = 0;  // of its own stage and of those it holds
  double undo_bytes = 0;      // staggered: its state before a step that is not validated yet
  double total() const {
    return state_bytes + gradient_bytes + save_bytes + snapshot_bytes + undo_bytes;
  }
};

// Of the workers `live`, at most. `costs` has the sizes of the job's stages.
std::map<WorkerId, StandingMemory> StandingMemoryOf(const JobConfig& config,
                                                    const std::vector<WorkerId>& live,
                                                    const CostProfile& costs);

}  // namespace recycle

#endif  // RECYCLE_APP_STANDING_MEMORY_H_
