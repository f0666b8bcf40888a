#include "recycle/app/job_config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "recycle/app/config_keys.h"
#include "recycle/app/config_values.h"
#include "recycle/app/job_security.h"
#include "recycle/base/file.h"
#include "recycle/base/utf8.h"
#include "recycle/plan/nearest.h"

namespace recycle {
namespace {

// A value and the place to name when it is wrong: "job.yaml:3" or "--set model.layers=0".
struct Located {
  YAML::Node value;
  std::string place;
};
using Values = std::map<std::string, Located>;

Status At(const std::string& place, const Status& status) {
  return {status.code(), absl::StrCat(place, ": ", status.message())};
}

std::string Place(const std::string& name, const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? name : fmt::format("{}:{}", name, mark.line + 1);
}

// yaml-cpp reports by exceptions; they end here.
StatusOr<YAML::Node> ParseYaml(const std::string& yaml, const std::string& name) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(yaml);
    if (documents.size() <= 1) return documents.empty() ? YAML::Node() : documents.front();
    return absl::InvalidArgumentError(fmt::format(
        "{} holds {} YAML documents, but it must be one; the nearest valid choice is to leave out "
        "what follows the second ---",
        name, documents.size()));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not readable as YAML: line {}, column {}: {}", name, error.mark.line + 1,
                    error.mark.column + 1, error.msg));
  }
}

Status UnknownKey(const std::string& path) {
  return absl::InvalidArgumentError(fmt::format("{} is not a key of a job; the nearest one is {}",
                                                Shortened(path), NearestConfigKey(path)));
}

Status UnknownSection(const std::string& section) {
  std::vector<std::string> sections;
  for (const ConfigKey& key : ConfigKeys()) {
    sections.push_back(key.section().empty() ? key.path : key.section());
  }
  const std::vector<std::string_view> known(sections.begin(), sections.end());
  return absl::InvalidArgumentError(
      fmt::format("{} is not a section of a job; the nearest one is {}", Shortened(section),
                  NearestName(section, known)));
}

bool IsSection(const std::string& name) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (!name.empty() && key.section() == name) return true;
  }
  return false;
}

// The name of the first key of a section that exists.
std::string FirstKeyOf(const std::string& section) {
  const std::vector<ConfigKey>& keys = ConfigKeys();
  return std::find_if(keys.begin(), keys.end(),
                      [&section](const ConfigKey& key) { return key.section() == section; })
      ->name();
}

Status AddValue(const std::string& path, const YAML::Node& value, const std::string& place,
                Values& values) {
  if (FindConfigKey(path) == nullptr) return At(place, UnknownKey(path));
  const auto [found, added] = values.try_emplace(path, Located{value, place});
  if (added) return OkStatus();
  return At(place, absl::InvalidArgumentError(
                       fmt::format("{} is given twice, first at {}; remove one of the two", path,
                                   found->second.place)));
}

Status AddSection(const std::string& section, const YAML::Node& keys, const std::string& name,
                  Values& values) {
  if (keys.IsNull()) return OkStatus();
  if (!keys.IsMap()) {
    return At(Place(name, keys),
              absl::InvalidArgumentError(
                  fmt::format("{} is {}, but it must be a map of keys, such as {}: {{{}: ...}}",
                              section, DescribeValue(keys), section, FirstKeyOf(section))));
  }
  for (const auto& entry : keys) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    RC_RETURN_IF_ERROR(
        AddValue(section + "." + key, entry.second, Place(name, entry.first), values));
  }
  return OkStatus();
}

// The file's values by their paths.
StatusOr<Values> Flatten(const YAML::Node& root, const std::string& name) {
  Values values;
  if (root.IsNull()) return values;
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is {}, but a job must be a map of sections, such as model: {{layers: 4, ...}}", name,
        DescribeValue(root)));
  }
  for (const auto& entry : root) {
    const std::string section = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    if (IsSection(section)) {
      RC_RETURN_IF_ERROR(AddSection(section, entry.second, name, values));
    } else if (FindConfigKey(section) != nullptr) {
      RC_RETURN_IF_ERROR(AddValue(section, entry.second, Place(name, entry.first), values));
    } else {
      return At(Place(name, entry.first), UnknownSection(section));
    }
  }
  return values;
}

// "path.to.key=value" replaces what the file says.
Status Override(const std::string& text, Values& values) {
  const std::string place = "--set " + Shortened(text);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has no value; write --set path.to.key=value, such as --set train.iterations=10",
        place));
  }
  const std::string path = text.substr(0, equals);
  if (FindConfigKey(path) == nullptr) return At(place, UnknownKey(path));
  RC_ASSIGN_OR_RETURN(const YAML::Node value, ParseYaml(text.substr(equals + 1), place));
  values.insert_or_assign(path, Located{value, place});
  return OkStatus();
}

std::string ResolvedPath(const std::string& folder, const std::string& path) {
  return (std::filesystem::absolute(folder) / path).lexically_normal().string();
}

void ResolvePaths(const std::string& folder, JobConfig& config) {
  if (!absl::StartsWith(config.data.text, "debian:")) {
    config.data.text = ResolvedPath(folder, config.data.text);
  }
  JobConfig::Security& security = config.security;
  for (std::string* const path :
       {&config.schedule.plan, &config.device.profile, &security.token_file, &security.ca_file,
        &security.certificate_file, &security.key_file, &security.etcd_ca_file,
        &security.etcd_certificate_file, &security.etcd_key_file}) {
    if (!path->empty()) *path = ResolvedPath(folder, *path);
  }
}

// A rule between two keys. `nearest` is the valid value of `key` next to the one it has.
Status BrokenRule(const std::string& key, double value, const std::string& rule, double nearest) {
  return BadValue(key, fmt::format("{}", value), rule, fmt::format("{}", nearest));
}

int NearestDivisor(int number, int wanted) {
  for (int distance = 0;; ++distance) {
    const int below = wanted - distance;
    const int above = wanted + distance;
    if (below >= 1 && number % below == 0) return below;
    if (above <= number && number % above == 0) return above;
  }
}

Status CheckShapes(const JobConfig& config) {
  const JobConfig::Model& model = config.model;
  if (model.hidden % model.heads != 0) {
    return BrokenRule("model.heads", model.heads,
                      fmt::format("a divisor of model.hidden ({})", model.hidden),
                      NearestDivisor(model.hidden, model.heads));
  }
  if (config.parallel.pipeline > model.layers) {
    return BrokenRule(
        "parallel.pipeline", config.parallel.pipeline,
        fmt::format("at most model.layers ({}), for every stage needs a layer", model.layers),
        model.layers);
  }
  if (config.data.tokenizer == "bytes" && config.data.vocabulary != 256) {
    return BrokenRule("data.vocabulary", config.data.vocabulary, "256 when data.tokenizer is bytes",
                      256);
  }
  if (config.launch.agents > config.parallel.data) {
    return BrokenRule("launch.agents", config.launch.agents,
                      fmt::format("at most parallel.data ({}), for every agent needs a pipeline",
                                  config.parallel.data),
                      config.parallel.data);
  }
  return OkStatus();
}

Status CheckSnapshots(const JobConfig& config) {
  const std::optional<int>& every = config.resilience.snapshot_every;
  if (config.parallel.pipeline == 1 && every.value_or(0) > 0) {
    return BrokenRule("resilience.snapshot_every", *every,
                      "0 when parallel.pipeline is 1, for no worker of another stage can hold them",
                      0);
  }
  return OkStatus();
}

Status CheckStragglers(const JobConfig& config) {
  const std::optional<double>& factor = config.resilience.slow_factor;
  if (!factor || *factor > 1) return OkStatus();
  return BrokenRule("resilience.slow_factor", *factor,
                    "above 1, for a worker at the pace of its peers is not slow", 1.5);
}

Status CheckTraining(const JobConfig& config) {
  if (config.optimizer.min_lr > config.optimizer.lr) {
    return BrokenRule("optimizer.min_lr", config.optimizer.min_lr,
                      fmt::format("at most optimizer.lr ({})", config.optimizer.lr),
                      config.optimizer.lr);
  }
  if (config.train.reproducible && config.schedule.rollback == "inverse") {
    return BadValue("schedule.rollback", "inverse",
                    "exact with train.reproducible: an inverse step is right but for rounding",
                    "exact");
  }
  if (config.model.tied && config.schedule.rollback == "inverse") {
    return BadValue("schedule.rollback", "inverse",
                    "exact with model.tied: the two copies of the embedding would drift apart",
                    "exact");
  }
  if (config.train.validate_every > 0 && config.data.validation == 0) {
    return BrokenRule("train.validate_every", config.train.validate_every,
                      "0 when data.validation is 0, for no samples are kept to validate on", 0);
  }
  return OkStatus();
}

Status CheckDevice(const JobConfig& config) {
  if (!config.device.is_paced() || !config.device.profile.empty()) return OkStatus();
  return BadValue("device.profile", "none", "a profile's path when device.kind is paced",
                  "what `recycle profile` wrote");
}

}  // namespace

Status CheckJobConfig(const JobConfig& config) {
  RC_RETURN_IF_ERROR(CheckShapes(config));
  RC_RETURN_IF_ERROR(CheckTraining(config));
  RC_RETURN_IF_ERROR(CheckSecurityKeys(config));
  RC_RETURN_IF_ERROR(CheckSnapshots(config));
  RC_RETURN_IF_ERROR(CheckStragglers(config));
  RC_RETURN_IF_ERROR(CheckDevice(config));
  for (const Fault& fault : config.inject) {
    const Status status = CheckFault(fault, config.parallel.data, config.parallel.pipeline,
                                     config.launch.agents, config.train.iterations);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("inject: {}; recycle train --no-inject leaves the job's own faults out",
                      std::string(status.message())));
    }
  }
  return OkStatus();
}

StatusOr<JobConfig> ParseJobConfig(const std::string& yaml, const std::string& name,
                                   const std::string& folder,
                                   const std::vector<std::string>& overrides) {
  if (!IsUtf8(yaml)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not UTF-8 text, but a job must be; save it in that encoding", name));
  }
  RC_ASSIGN_OR_RETURN(const YAML::Node root, ParseYaml(yaml, name));
  RC_ASSIGN_OR_RETURN(Values values, Flatten(root, name));
  for (const std::string& text : overrides) RC_RETURN_IF_ERROR(Override(text, values));

  JobConfig config;
  for (const ConfigKey& key : ConfigKeys()) {
    const auto found = values.find(key.path);
    if (found != values.end()) {
      const Status status = key.read(found->second.value, config);
      if (!status.ok()) return At(found->second.place, status);
    } else if (key.required()) {
      return absl::InvalidArgumentError(fmt::format("{}: {} is missing; it must be {}, such as {}",
                                                    name, key.path, key.rule, key.example));
    }
  }
  ResolvePaths(folder, config);
  const Status status = CheckJobConfig(config);
  if (!status.ok()) return At(name, status);
  return config;
}

StatusOr<JobConfig> LoadJobConfig(const std::string& path,
                                  const std::vector<std::string>& overrides) {
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return absl::NotFoundError(fmt::format(
        "{} cannot be read; give the path of a job's YAML file, such as examples/first-light.yaml",
        path));
  }
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  return ParseJobConfig(*text, path, folder, overrides);
}

Status AddInjectOptions(const std::vector<std::string>& inject, JobConfig& config) {
  for (const std::string& text : inject) {
    const StatusOr<Fault> fault = ParseFault(text);
    if (!fault.ok()) return At("--inject", fault.status());
    const Status status = CheckFault(*fault, config.parallel.data, config.parallel.pipeline,
                                     config.launch.agents, config.train.iterations);
    if (!status.ok()) return At("--inject", status);
    config.inject.push_back(*fault);
  }
  return OkStatus();
}

std::string ToYaml(const JobConfig& config) {
  std::string yaml;
  std::string section;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.section() != section) {
      section = key.section();
      if (!section.empty()) yaml += section + ":\n";
    }
    yaml += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", key.name(), key.write(config));
  }
  return yaml;
}

}  // namespace recycle
