// Profile files of `recycle plan` and `recycle simulate`: costs per stage (docs/PLAN_FORMAT.md), or
// Parcae's layer profiles, whose layers are cut into the job's stages. Pure but for reading.
#ifndef RECYCLE_APP_PROFILE_FILE_H_
#define RECYCLE_APP_PROFILE_FILE_H_

#include <optional>
#include <string>

#include "recycle/base/status.h"
#include "recycle/plan/costs.h"
#include "recycle/simulator/parcae_profile.h"

namespace recycle {

struct JobProfile {
  CostProfile costs;                   // of as many stages as the file says, or as layers were cut
  std::optional<ProfiledModel> model;  // layer profiles: the entry that was read
};

// `model` names the entry of layer profiles (empty: the only one) that is cut into `stages`. Error:
// kInvalidArgument naming the path, what is wrong and the rule; kNotFound for a file that cannot be
// read.
StatusOr<JobProfile> ReadJobProfile(const std::string& path, const std::string& model, int stages);

}  // namespace recycle

#endif  // RECYCLE_APP_PROFILE_FILE_H_
