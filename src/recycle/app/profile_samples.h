// Reads back what a run with log.trace and log.profile has measured.
//
//   RC_ASSIGN_OR_RETURN(const ProfileSamples samples, ReadProfileSamples(folder, workers));
#ifndef RECYCLE_APP_PROFILE_SAMPLES_H_
#define RECYCLE_APP_PROFILE_SAMPLES_H_

#include <vector>

#include "recycle/app/profile_report.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"

namespace recycle {

// `workers` are all places of the job; the run has ended. Frames whose sending or arrival was not
// written are left out. Errors: kNotFound, kDataLoss naming the file.
StatusOr<ProfileSamples> ReadProfileSamples(const RunFolder& folder,
                                            const std::vector<WorkerId>& workers);

}  // namespace recycle

#endif  // RECYCLE_APP_PROFILE_SAMPLES_H_
