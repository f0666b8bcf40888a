// Which of a job's faults have fired. An injector leaves a stamp file in the run folder the moment
// before the deed, so a fault that kills its own process is known too. The folder is read only
// after the decision about a death is stored: nothing that trains or decides learns of a fault from
// here.
//
// A stamp: {"index", "worker", "pid", "point", "iteration" (from 1), "monotonic_ns", "unix_s"}.
//
// Not thread-safe.
#ifndef RECYCLE_APP_FAULT_LEDGER_H_
#define RECYCLE_APP_FAULT_LEDGER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/protocol/fault.h"

namespace recycle {

struct FaultStamp {
  int fault = 0;                   // index into the job's list
  std::optional<WorkerId> worker;  // whose process fired it; absent: the coordinator
  int iteration = 1;               // from 1
  TimePoint time;
  double unix_s = 0;
};

// For a run that is resumed: if `config` has other faults than the run had before (config.yaml of
// `folder`), what fired then says nothing about them, and the stamps go. Errors: as LoadJobConfig;
// kPermissionDenied.
Status ForgetOldFaults(const JobConfig& config, const RunFolder& folder);

class FaultLedger {
 public:
  // `agents`: how many the job has; a fault that hits one hits its workers (AgentOf).
  FaultLedger(std::vector<Fault> faults, const RunFolder& folder, int agents);

  const std::vector<Fault>& faults() const { return faults_; }

  // The stamps that were not there at the last call, oldest first. A file that does not parse is
  // logged and left out.
  std::vector<FaultStamp> TakeNew();

  // The last fault that can end `worker` (kill or stop of itself or of its agent), among the stamps
  // taken.
  std::optional<FaultStamp> LethalTo(WorkerId worker) const;

  // Indices of the faults without a stamp, among the stamps taken.
  std::vector<int> Missed() const;

 private:
  bool Ends(const FaultStamp& stamp, WorkerId worker) const;

  const std::vector<Fault> faults_;
  const std::string folder_;
  const int agents_;
  std::set<std::string> seen_files_;
  std::vector<FaultStamp> stamps_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_FAULT_LEDGER_H_
