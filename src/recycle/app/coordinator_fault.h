// Faults that the coordinator's process carries out itself, and the stamps it leaves of them.
//
// Thread-safe: functions.
#ifndef RECYCLE_APP_COORDINATOR_FAULT_H_
#define RECYCLE_APP_COORDINATOR_FAULT_H_

#include <string>
#include <vector>

#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/protocol/fault.h"

namespace recycle {

// Leaves the stamp of fault `index`, which fires in `iteration` (from 1). Errors as
// WriteFileAtomically.
Status WriteCoordinatorStamp(const RunFolder& folder, const Clock& clock, int index, int iteration);

// "kill all at checkpoint.marker of iteration 4" and its like: kills the whole job, by its launcher
// if it has one, when the commit of the checkpoint of `iteration` has come to `point` and such a
// fault of `faults` has not fired yet.
void FireCommitFault(const std::vector<Fault>& faults, const RunFolder& folder, const Clock& clock,
                     bool has_launcher, CommitPoint point, int iteration);

}  // namespace recycle

#endif  // RECYCLE_APP_COORDINATOR_FAULT_H_
