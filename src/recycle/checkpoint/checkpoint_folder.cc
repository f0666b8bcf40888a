#include "recycle/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "recycle/base/file.h"
#include "recycle/base/log.h"
#include "recycle/base/sha256.h"
#include "recycle/checkpoint/durable_file.h"
#include "recycle/checkpoint/shard.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "iter_";
constexpr std::string_view kManifest = "/manifest.json";
constexpr std::string_view kMarker = "/COMMITTED";
constexpr std::string_view kLatest = "/latest";

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(fmt::format("checkpoint '{}' is damaged: {}", path, what));
}

// The iteration of a folder name as CheckpointName makes it.
std::optional<int> IterationOf(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int iteration = 0;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + kPrefix.size(), end, iteration);
  if (error != std::errc() || last != end || CheckpointName(iteration) != name) return std::nullopt;
  return iteration;
}

// Iterations of the folders in `root`, the newest first.
std::vector<int> Iterations(const std::string& root) {
  std::vector<int> iterations;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    const std::optional<int> iteration = IterationOf(entry.path().filename().string());
    if (iteration && entry.is_directory(error)) iterations.push_back(*iteration);
  }
  std::sort(iterations.rbegin(), iterations.rend());
  return iterations;
}

// First the marker, so that what is left after a crash in between does not look complete.
void RemoveCheckpoint(const std::string& path) {
  std::error_code error;
  if (fs::remove(path + std::string(kMarker), error)) {
    const Status synced = SyncFolder(path);
    if (!synced.ok()) LogWarning("{}", std::string(synced.message()));
  }
  fs::remove_all(path, error);
  if (error) LogWarning("'{}' cannot be removed: {}", path, error.message());
}

Status CheckFiles(const std::string& path, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(path + "/" + file.name, error);
    if (error) return Damaged(path, fmt::format("file '{}': {}", file.name, error.message()));
    if (bytes != file.bytes) {
      return Damaged(path, fmt::format("file '{}' has {} bytes, but the manifest says {}",
                                       file.name, bytes, file.bytes));
    }
  }
  return OkStatus();
}

// What writers of other generations left beside the files of a complete checkpoint.
void RemoveStrangers(const std::string& path, const Manifest& manifest) {
  std::set<std::string> known = {"manifest.json", "COMMITTED"};
  for (const ManifestFile& file : manifest.files) known.insert(file.name);
  std::error_code error;
  std::vector<fs::path> strangers;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (!known.contains(entry.path().filename().string())) strangers.push_back(entry.path());
  }
  for (const fs::path& stranger : strangers) fs::remove(stranger, error);
}

}  // namespace

std::string CheckpointName(int iteration) { return fmt::format("{}{:07}", kPrefix, iteration); }

StatusOr<Checkpoint> OpenCheckpoint(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(fmt::format("there is no checkpoint '{}'", path));
  }
  const StatusOr<std::string> marker = ReadWholeFile(path + std::string(kMarker));
  if (!marker.ok()) {
    return absl::NotFoundError(
        fmt::format("checkpoint '{}' is not complete: it has no file COMMITTED", path));
  }
  const StatusOr<std::string> text = ReadWholeFile(path + std::string(kManifest));
  if (!text.ok()) return Damaged(path, "it has no manifest.json");
  if (Sha256Of(*text) != FirstLine(*marker)) {
    return Damaged(path, "manifest.json is not the one that COMMITTED names");
  }
  StatusOr<Manifest> manifest = ManifestFromJson(*text);
  if (!manifest.ok()) return Damaged(path, std::string(manifest.status().message()));
  RC_RETURN_IF_ERROR(CheckFiles(path, *manifest));
  return Checkpoint{path, *std::move(manifest)};
}

Status VerifyCheckpoint(const Checkpoint& checkpoint) {
  for (const ManifestFile& file : checkpoint.manifest.files) {
    RC_RETURN_IF_ERROR(VerifyFile(checkpoint.path, file));
  }
  std::vector<std::byte> buffer;
  for (const ManifestTensor& tensor : checkpoint.manifest.tensors) {
    buffer.resize(tensor.num_bytes());
    RC_RETURN_IF_ERROR(ReadTensors(checkpoint.path, {{tensor, buffer}}));
  }
  return OkStatus();
}

StatusOr<Manifest> DescribeShards(const std::string& folder, Manifest manifest,
                                  const std::vector<ManifestFile>& shards) {
  manifest.files = shards;
  manifest.tensors.clear();
  std::set<std::string> names;
  for (const ManifestFile& shard : shards) {
    RC_ASSIGN_OR_RETURN(std::vector<ManifestTensor> tensors,
                        DescribeShard(folder + "/" + shard.name));
    for (ManifestTensor& tensor : tensors) {
      if (!names.insert(tensor.name).second) {
        return Damaged(folder, fmt::format("tensor '{}' is in two shards", tensor.name));
      }
      manifest.tensors.push_back(std::move(tensor));
    }
  }
  std::stable_sort(
      manifest.tensors.begin(), manifest.tensors.end(),
      [](const ManifestTensor& a, const ManifestTensor& b) { return a.layer < b.layer; });
  return manifest;
}

Status SealCheckpoint(const std::string& folder, const Manifest& manifest, const CommitHook& hook) {
  const std::string text = ManifestToJson(manifest);
  hook(CommitPoint::kBeforeManifest);
  RC_RETURN_IF_ERROR(WriteFileDurably(folder + std::string(kManifest), text));
  hook(CommitPoint::kBeforeMarker);
  return WriteFileDurably(folder + std::string(kMarker), Sha256Of(text) + "\n");
}

CheckpointFolder::CheckpointFolder(std::string root) : root_(std::move(root)) {}

Status CheckpointFolder::Create(int iteration) const {
  std::error_code error;
  for (const std::string& path : {root_, Path(iteration)}) {
    const bool made = fs::create_directory(path, error);
    if (error) return WriteError(path, error.value());
    if (made) RC_RETURN_IF_ERROR(SyncFolder(fs::path(path).parent_path().string()));
  }
  return OkStatus();
}

Status CheckpointFolder::Commit(const Manifest& manifest, int keep, const CommitHook& hook) const {
  RC_RETURN_IF_ERROR(SealCheckpoint(Path(manifest.iteration), manifest, hook));
  hook(CommitPoint::kBeforeLatest);
  RC_RETURN_IF_ERROR(MoveLatest(CheckpointName(manifest.iteration)));
  hook(CommitPoint::kBeforePrune);
  RemoveStrangers(Path(manifest.iteration), manifest);
  Prune(manifest.iteration, keep);
  return OkStatus();
}

Status CheckpointFolder::MoveLatest(const std::string& name) const {
  return WriteFileDurably(root_ + std::string(kLatest), name + "\n");
}

void CheckpointFolder::Prune(int newest, int keep) const {
  int kept = 0;
  for (const int iteration : Iterations(root_)) {
    if (iteration > newest) continue;  // of a save in progress
    const bool complete = fs::exists(Path(iteration) + std::string(kMarker));
    if (complete && ++kept <= keep) continue;
    RemoveCheckpoint(Path(iteration));
  }
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::List() const {
  std::vector<Entry> entries;
  for (const int iteration : Iterations(root_)) {
    StatusOr<Checkpoint> checkpoint = OpenCheckpoint(Path(iteration));
    if (checkpoint.ok() && checkpoint->manifest.iteration != iteration) {
      checkpoint = Damaged(Path(iteration), fmt::format("it is the state of iteration {}",
                                                        checkpoint->manifest.iteration));
    }
    entries.push_back({iteration, std::move(checkpoint)});
  }
  return entries;
}

void CheckpointFolder::NoteLatest(const std::string& chosen,
                                  std::vector<std::string>& notes) const {
  const StatusOr<std::string> latest = ReadWholeFile(root_ + std::string(kLatest));
  if (!latest.ok() || FirstLine(*latest) == chosen) return;
  std::error_code error;
  const std::string named = FirstLine(*latest);
  notes.push_back(fmt::format("'{}{}' names '{}', which {}", root_, kLatest, named,
                              fs::exists(root_ + "/" + named, error)
                                  ? "is not the newest complete checkpoint that loads"
                                  : "is not there"));
}

Status CheckpointFolder::SetAside(int iteration, LoadAttempts& attempts) const {
  const std::string target = Path(iteration) + ".unusable";
  std::error_code error;
  fs::remove_all(target, error);
  fs::rename(Path(iteration), target, error);
  if (error) return WriteError(target, error.value());
  return attempts.Forget(CheckpointName(iteration));
}

StatusOr<ResumeChoice> CheckpointFolder::ChooseForResume() const {
  ResumeChoice choice;
  LoadAttempts attempts = Attempts();
  std::vector<int> bad;
  for (Entry& entry : List()) {
    if (!entry.checkpoint.ok()) {
      choice.notes.push_back(std::string(entry.checkpoint.status().message()));
      continue;
    }
    const std::string name = CheckpointName(entry.iteration);
    const std::string verdict = attempts.Verdict(name);
    if (!verdict.empty()) {
      bad.push_back(entry.iteration);
      choice.notes.push_back(
          fmt::format("checkpoint '{}' is stepped over: {}", entry.checkpoint->path, verdict));
      continue;
    }
    for (const int iteration : bad) RC_RETURN_IF_ERROR(SetAside(iteration, attempts));
    NoteLatest(name, choice.notes);
    choice.checkpoint = *std::move(entry.checkpoint);
    return choice;
  }
  NoteLatest("", choice.notes);
  std::string why = fmt::format("there is no complete checkpoint in '{}' to go on from", root_);
  for (const std::string& note : choice.notes) why += "; " + note;
  if (!bad.empty()) why += fmt::format("; remove '{}' to try again", attempts.path());
  if (choice.notes.empty()) why += "; start a new run without --resume";
  return absl::NotFoundError(why);
}

}  // namespace recycle
