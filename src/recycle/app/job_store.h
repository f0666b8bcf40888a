// The store of a job, as resilience.store names it: an SQLite file in the run folder, or an etcd.
//
//   RC_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore(config, folder));
//
// Thread-safe: functions.
#ifndef RECYCLE_APP_JOB_STORE_H_
#define RECYCLE_APP_JOB_STORE_H_

#include <memory>
#include <string>

#include "recycle/app/job_config.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/status.h"
#include "recycle/store/store.h"

namespace recycle {

// Is it "etcd://ADDRESS:PORT,..."? Error: kInvalidArgument.
Status CheckStoreName(const std::string& name);

// Does the store answer? An embedded one is not asked. Error: kUnavailable.
Status ProbeStore(const JobConfig& config, const RunFolder& folder);

// In an etcd the run folder's path names the job. The store of a job with a fault of it stops when
// the fault says so. Errors: kUnavailable, kDataLoss.
StatusOr<std::unique_ptr<Store>> OpenStore(const JobConfig& config, const RunFolder& folder);

}  // namespace recycle

#endif  // RECYCLE_APP_JOB_STORE_H_
