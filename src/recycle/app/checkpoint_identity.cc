#include "recycle/app/checkpoint_identity.h"

#include <fmt/format.h>

#include <filesystem>

#include "recycle/app/config_keys.h"

namespace recycle {
namespace {

constexpr const char* kText = "data.text";

}  // namespace

std::map<std::string, std::string> CheckpointIdentity(const JobConfig& config,
                                                      const PreparedCorpus& corpus) {
  std::map<std::string, std::string> identity;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.section() == "model" || key.section() == "data") {
      identity[key.path] = key.write(config);
    }
  }
  // The cache calls a prepared corpus by the hash of its text and tokenizer.
  identity[kText] = std::filesystem::path(corpus.token_file).parent_path().filename().string();
  return identity;
}

Status CheckIdentity(const std::map<std::string, std::string>& checkpoint,
                     const std::map<std::string, std::string>& job) {
  for (const auto& [key, value] : job) {
    const auto saved = checkpoint.find(key);
    if (saved != checkpoint.end() && saved->second == value) continue;
    const std::string was = saved == checkpoint.end() ? "not known" : saved->second;
    return absl::InvalidArgumentError(
        fmt::format("{} is {}, but the checkpoint was trained with {}{}; leave it as it was, or "
                    "start a new run "
                    "in another --run-dir",
                    key, value, was, key == kText ? " (hashes of the prepared text)" : ""));
  }
  return OkStatus();
}

Status CheckIterations(int iteration, const JobConfig& config) {
  if (iteration <= config.train.iterations) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "train.iterations is {}, but the checkpoint is that of iteration {}; use {} or more",
      config.train.iterations, iteration, iteration));
}

}  // namespace recycle
