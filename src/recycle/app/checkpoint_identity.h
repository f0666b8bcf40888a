// Of which training a checkpoint is the state: the keys of the job that must not change when it is
// resumed, those of the sections model and data. A text is known by what it says, not by its place.
#ifndef RECYCLE_APP_CHECKPOINT_IDENTITY_H_
#define RECYCLE_APP_CHECKPOINT_IDENTITY_H_

#include <map>
#include <string>

#include "recycle/app/job_config.h"
#include "recycle/base/status.h"
#include "recycle/data/corpus.h"

namespace recycle {

// Key -> value, for Manifest::identity.
std::map<std::string, std::string> CheckpointIdentity(const JobConfig& config,
                                                      const PreparedCorpus& corpus);

// Error: kInvalidArgument naming the first key whose value in `config` is not that of the
// checkpoint, with both values.
Status CheckIdentity(const std::map<std::string, std::string>& checkpoint,
                     const std::map<std::string, std::string>& job);

// Error: kInvalidArgument if the job of `config` ends before `iteration`, a checkpoint's.
Status CheckIterations(int iteration, const JobConfig& config);

}  // namespace recycle

#endif  // RECYCLE_APP_CHECKPOINT_IDENTITY_H_
