// The fault "stop store": for a while nobody of a job reaches its store. Who carries it out leaves
// in the run folder until when; every coordinator looks there before it uses the store.
//
//   RC_RETURN_IF_ERROR(BeginStoreOutage(folder, clock.UnixSeconds() + 1));
//   if (IsStoreOut(folder, clock.UnixSeconds())) ...
//
// Times are Unix seconds: a run folder may be older than the machine's last start. Thread-safe:
// functions.
#ifndef RECYCLE_APP_STORE_OUTAGE_H_
#define RECYCLE_APP_STORE_OUTAGE_H_

#include "recycle/app/run_folder.h"
#include "recycle/base/status.h"

namespace recycle {

// Errors as WriteFileAtomically.
Status BeginStoreOutage(const RunFolder& folder, double over);

bool IsStoreOut(const RunFolder& folder, double now);

}  // namespace recycle

#endif  // RECYCLE_APP_STORE_OUTAGE_H_
