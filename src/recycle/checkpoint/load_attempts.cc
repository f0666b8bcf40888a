#include "recycle/checkpoint/load_attempts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "recycle/base/file.h"
#include "recycle/checkpoint/durable_file.h"

namespace recycle {
namespace {

using Json = nlohmann::ordered_json;

// A whole number from 0 in `json`, else 0.
int CountIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<int>() : 0;
}

}  // namespace

LoadAttempts::LoadAttempts(std::string path) : path_(std::move(path)) {
  const StatusOr<std::string> text = ReadWholeFile(path_);
  if (!text.ok()) return;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  for (const auto& [checkpoint, counts] : json.items()) {
    if (!counts.is_object()) continue;
    counts_[checkpoint] = {.unfinished = CountIn(counts, "unfinished"),
                           .failed = CountIn(counts, "failed")};
  }
}

std::string LoadAttempts::Verdict(const std::string& checkpoint) const {
  const auto counts = counts_.find(checkpoint);
  if (counts == counts_.end()) return "";
  if (counts->second.failed >= kFailuresAllowed) {
    return fmt::format("loading it has failed {} times", counts->second.failed);
  }
  if (counts->second.unfinished >= kUnfinishedAllowed) {
    return fmt::format("loading it has not come to its end {} times", counts->second.unfinished);
  }
  return "";
}

Status LoadAttempts::Begin(const std::string& checkpoint) {
  ++counts_[checkpoint].unfinished;
  return Write();
}

Status LoadAttempts::Failed(const std::string& checkpoint) {
  ++counts_[checkpoint].failed;
  return Write();
}

Status LoadAttempts::Forget(const std::string& checkpoint) {
  counts_.erase(checkpoint);
  return Write();
}

Status LoadAttempts::Write() const {
  Json json = Json::object();
  for (const auto& [checkpoint, counts] : counts_) {
    json[checkpoint] = {{"unfinished", counts.unfinished}, {"failed", counts.failed}};
  }
  return WriteFileDurably(path_, json.dump(1) + "\n");
}

}  // namespace recycle
