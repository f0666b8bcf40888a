#include "recycle/app/checkpoint_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <vector>

#include "recycle/app/event_writer.h"
#include "recycle/app/numbers.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/checkpoint/reshard.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;

// A folder and what it says of itself.
struct Found {
  std::string path;
  StatusOr<Checkpoint> checkpoint;
};

// The folders that `path` stands for, the newest first.
StatusOr<std::vector<Found>> Find(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(fmt::format("there is no folder '{}'", path));
  }
  const bool is_run = fs::is_directory(path + "/checkpoints", error);
  const CheckpointFolder folder(is_run ? path + "/checkpoints" : path);
  std::vector<Found> found;
  for (CheckpointFolder::Entry& entry : folder.List()) {
    found.push_back({folder.Path(entry.iteration), std::move(entry.checkpoint)});
  }
  if (found.empty() && !is_run) found.push_back({path, OpenCheckpoint(path)});
  if (!found.empty()) return found;
  return absl::NotFoundError(fmt::format("there is no checkpoint in '{}'", folder.root()));
}

int CountLayers(const Manifest& manifest) {
  std::set<int> layers;
  for (const ManifestTensor& tensor : manifest.tensors) layers.insert(tensor.layer);
  return static_cast<int>(layers.size());
}

Json FoundJson(const Found& found) {
  Json json;
  json["path"] = found.path;
  json["complete"] = found.checkpoint.ok();
  if (!found.checkpoint.ok()) {
    json["reason"] = std::string(found.checkpoint.status().message());
    return json;
  }
  const Manifest& manifest = found.checkpoint->manifest;
  json["iteration"] = manifest.iteration;
  json["generation"] = manifest.generation;
  json["loss"] = manifest.loss ? Json(*manifest.loss) : Json(nullptr);
  json["bytes"] = manifest.num_bytes();
  json["tensors"] = manifest.tensors.size();
  json["layers"] = CountLayers(manifest);
  json["files"] = manifest.files.size();
  json["parameters_sha256"] = ParametersSha256(manifest);
  json["state_sha256"] = StateSha256(manifest);
  json["identity"] = manifest.identity;
  return json;
}

std::string ToText(const Found& found) {
  if (!found.checkpoint.ok()) {
    return fmt::format("{}\n  {}\n", found.path, std::string(found.checkpoint.status().message()));
  }
  const Manifest& manifest = found.checkpoint->manifest;
  const auto count = [](auto number, std::string_view noun) {
    return Count(static_cast<std::int64_t>(number), noun);
  };
  std::string text = fmt::format(
      "{}\n"
      "  iteration   {}, saved in generation {}{}\n"
      "  state       {} in {}, {:.1f} MB in {}\n"
      "  parameters  {}\n"
      "  all state   {}\n",
      found.path, manifest.iteration, manifest.generation,
      manifest.loss ? fmt::format(", loss {:.4f}", *manifest.loss) : "",
      count(manifest.tensors.size(), "tensor"), count(CountLayers(manifest), "layer"),
      static_cast<double>(manifest.num_bytes()) / 1e6, count(manifest.files.size(), "file"),
      ParametersSha256(manifest), StateSha256(manifest));
  for (const auto& [key, value] : manifest.identity) {
    text += fmt::format("  {:<18}  {}\n", key, value);
  }
  return text;
}

}  // namespace

Status RunCheckpointInspect(const CheckpointArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const std::vector<Found> found, Find(arguments.path));
  if (found.size() == 1 && !found.front().checkpoint.ok()) return found.front().checkpoint.status();
  if (!arguments.json) {
    for (const Found& entry : found) out << ToText(entry);
    return OkStatus();
  }
  Json json;
  json["checkpoints"] = Json::array();
  for (const Found& entry : found) json["checkpoints"].push_back(FoundJson(entry));
  out << json.dump(2) << "\n";
  return OkStatus();
}

StatusOr<ExitCode> RunCheckpointVerify(const CheckpointArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const std::vector<Found> found, Find(arguments.path));
  ExitCode code = ExitCode::kDone;
  bool any_complete = false;
  for (const Found& entry : found) {
    if (absl::IsNotFound(entry.checkpoint.status())) {
      out << entry.path << ": not complete: it has no file COMMITTED\n";
      continue;
    }
    any_complete = true;
    Status status = entry.checkpoint.status();
    if (status.ok()) status = VerifyCheckpoint(*entry.checkpoint);
    if (!status.ok()) code = ExitCode::kNo;
    out << entry.path << ": " << (status.ok() ? "every byte as it was saved" : status.message())
        << "\n";
  }
  return any_complete ? code : ExitCode::kNo;
}

Status RunCheckpointConvert(const CheckpointArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const std::vector<Found> found, Find(arguments.path));
  for (const Found& entry : found) {
    if (!entry.checkpoint.ok()) continue;
    RC_ASSIGN_OR_RETURN(const Manifest manifest,
                        Reshard(*entry.checkpoint, arguments.target, arguments.files));
    out << fmt::format("{} in {}: {}\n", entry.path,
                       Count(static_cast<std::int64_t>(manifest.files.size()), "file"),
                       arguments.target);
    return OkStatus();
  }
  return found.front().checkpoint.status();
}

}  // namespace recycle
