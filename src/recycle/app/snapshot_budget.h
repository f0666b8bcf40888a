// What snapshots in memory cost a job: how often one is made, and the memory they take. Pure.
#ifndef RECYCLE_APP_SNAPSHOT_BUDGET_H_
#define RECYCLE_APP_SNAPSHOT_BUDGET_H_

#include <map>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/base/ids.h"
#include "recycle/plan/plan.h"

namespace recycle {

// Iterations from one snapshot to the next; 0: none is made. What resilience.snapshot_every means.
int SnapshotEvery(const JobConfig& config);

// Memory that snapshots take at most, by worker: two of its own stage (one that counts and one that
// does not yet) and two of every stage that it holds for others. Empty without snapshots.
std::map<WorkerId, double> SnapshotBytes(const JobConfig& config, const std::vector<WorkerId>& live,
                                         const CostProfile& costs);

}  // namespace recycle

#endif  // RECYCLE_APP_SNAPSHOT_BUDGET_H_
