// Faults that the coordinator's process carries out itself, and the stamps it leaves of them.
//
// Functions are thread-safe.
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

// Carries out the job's faults (--inject) that hit the coordinator or the store. A fault fires once
// in a job's life, whichever coordinator leads: a stamp in the run folder tells (fault_ledger.h).
//
// Points: `start` before it listens; `store` when a generation's record is durable and nobody has
// been told; `regroup` when Prepare is out; every other point when the fault's iteration begins.
//
//   faults.At(FaultPoint::kStore, iteration);   // from 1
//
// Not thread-safe: the coordinator's thread owns it.
class CoordinatorFaults {
 public:
  CoordinatorFaults(const std::vector<Fault>& faults, const RunFolder& folder, const Clock& clock);

  // Fires what is due: `point` is kStart, kStore, kRegroup or, for the beginning of `iteration`
  // (from 1), kStep. A kill does not return. True if something fired.
  bool At(FaultPoint point, int iteration);

 private:
  struct ArmedFault {
    int index = 0;
    Fault fault;
  };
  void Fire(const ArmedFault& armed, int iteration) const;

  const RunFolder folder_;
  const Clock& clock_;
  std::vector<ArmedFault> armed_;
};

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
