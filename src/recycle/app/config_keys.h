// The table of a job's keys: the one place that says what a key is called, what it may be, what it
// means and what it is when absent. Reading, writing, `recycle config` and docs/CONFIG.md follow
// it.
//
// The table is built once and never changes; thread-safe.
#ifndef RECYCLE_APP_CONFIG_KEYS_H_
#define RECYCLE_APP_CONFIG_KEYS_H_

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/base/status.h"

namespace recycle {

struct ConfigKey {
  std::string path;     // "model.layers"; a key without a section has no dot
  std::string rule;     // what a value must be: "an integer of 1 or more"
  std::string unit;     // "ms"; empty: none
  std::string meaning;  // one sentence
  std::string example;  // a value for required keys; empty: the key has a default
  // Stores a value. The error is one sentence that starts with the key.
  std::function<Status(const YAML::Node& value, JobConfig& config)> read;
  // The value as YAML that reads back equal.
  std::function<std::string(const JobConfig& config)> write;

  bool required() const { return !example.empty(); }
  std::string section() const;  // "model"; empty for a key without a section
  std::string name() const;     // "layers"
};

// All keys, section by section, in the order of documents.
const std::vector<ConfigKey>& ConfigKeys();

// The key called `path`, or nullptr.
const ConfigKey* FindConfigKey(const std::string& path);

// The path of the key that `path` was most likely meant to be.
std::string NearestConfigKey(const std::string& path);

// Every key with its meaning as comments and its default, or an example where it is required: a job
// file to start from (`recycle config --defaults`).
std::string DefaultsAsYaml();

// docs/CONFIG.md.
std::string ConfigKeysAsMarkdown();

}  // namespace recycle

#endif  // RECYCLE_APP_CONFIG_KEYS_H_
