#include "recycle/app/profile_file.h"

#include <fmt/format.h>

#include <utility>

#include "recycle/base/file.h"
#include "recycle/plan/costs_json.h"

namespace recycle {
namespace {

StatusOr<JobProfile> ReadProfile(const std::string& text, const std::string& model, int stages) {
  JobProfile profile;
  if (IsParcaeProfile(text)) {
    RC_ASSIGN_OR_RETURN(profile.model, ReadParcaeProfile(text, model, stages));
    profile.costs = profile.model->costs;
    return profile;
  }
  RC_ASSIGN_OR_RETURN(profile.costs, ProfileFromJson(text));
  if (model.empty()) return profile;
  return absl::InvalidArgumentError(
      fmt::format("--model is {}, which names an entry of layer profiles, but the file states the "
                  "costs of one job's stages; leave --model out",
                  model));
}

}  // namespace

StatusOr<JobProfile> ReadJobProfile(const std::string& path, const std::string& model, int stages) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  StatusOr<JobProfile> profile = ReadProfile(text, model, stages);
  if (profile.ok()) return profile;
  return Status(profile.status().code(),
                fmt::format("{}: {}", path, std::string(profile.status().message())));
}

}  // namespace recycle
