// The folder `checkpoints/` of a run, and the order of writing that keeps at least one complete
// checkpoint in it at every moment (users' reports: KempnerInstitute/KempnerForge#102,
// vllm-project/speculators PR 739):
//
//   iter_0000050/layers-00000-00002.g1.safetensors, ...   shards, each durable on its own
//   iter_0000050/manifest.json                            which files count; then
//   iter_0000050/COMMITTED                                the SHA-256 of the manifest: complete now
//   latest                                                "iter_0000050", moved after that; then
//                                                         older ones are removed
//   load_attempts.json                                    see load_attempts.h
//
//   CheckpointFolder checkpoints(run + "/checkpoints");
//   RC_RETURN_IF_ERROR(checkpoints.Commit(manifest, {.keep = 2}, {}));
//   RC_ASSIGN_OR_RETURN(const ResumeChoice choice, checkpoints.ChooseForResume());
//
// One process at a time commits; anyone may read meanwhile. Not thread-safe.
#ifndef RECYCLE_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define RECYCLE_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <functional>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/checkpoint/load_attempts.h"
#include "recycle/checkpoint/manifest.h"

namespace recycle {

// A complete checkpoint.
struct Checkpoint {
  std::string path;  // of its folder
  Manifest manifest;
};

// Called between the steps of a commit: fault injection.
enum class CommitPoint { kBeforeManifest, kBeforeMarker, kBeforeLatest, kBeforePrune };
using CommitHook = std::function<void(CommitPoint)>;

// "iter_0000050".
std::string CheckpointName(int iteration);

// Reads the marker and the manifest of a checkpoint's folder, and looks whether every file is there
// with its length; the tensors' bytes are not read. Errors, one sentence with the path: kNotFound
// if the folder is not there or has no marker (it is half-written); kDataLoss if it is damaged.
StatusOr<Checkpoint> OpenCheckpoint(const std::string& path);

// Reads every byte of a checkpoint and compares every hash. Errors as above.
Status VerifyCheckpoint(const Checkpoint& checkpoint);

// The manifest of the given shards of `folder`: `manifest` with files and tensors filled in, layer
// by layer. Errors: of DescribeShard; kDataLoss if two shards have the same tensor.
StatusOr<Manifest> DescribeShards(const std::string& folder, Manifest manifest,
                                  const std::vector<ManifestFile>& shards);

// Writes manifest and marker of a folder that holds the manifest's files: it is complete after
// that. Errors as WriteFileDurably.
Status SealCheckpoint(const std::string& folder, const Manifest& manifest, const CommitHook& hook);

// What a job goes on from, and what has to be said about it.
struct ResumeChoice {
  Checkpoint checkpoint;
  std::vector<std::string> notes;  // a sentence for every folder that was stepped over
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string root);

  std::string Path(int iteration) const { return root_ + "/" + CheckpointName(iteration); }
  const std::string& root() const { return root_; }

  // Makes root and the iteration's folder. Error: kPermissionDenied or kResourceExhausted.
  Status Create(int iteration) const;

  // Makes the manifest's checkpoint complete and the newest, then removes complete ones beyond the
  // `keep` newest and what is left of older attempts. Errors as WriteFileDurably; then everything
  // that was complete still is.
  Status Commit(const Manifest& manifest, int keep, const CommitHook& hook) const;

  // Every checkpoint's folder, the newest first, with what OpenCheckpoint says of it.
  struct Entry {
    int iteration = 0;
    StatusOr<Checkpoint> checkpoint;
  };
  std::vector<Entry> List() const;

  // The newest complete checkpoint whose load has not failed too often; newer ones are set aside
  // (renamed to ....unusable) if their load did. `latest` is not asked, but a `latest` that names
  // something else is noted. Error: kNotFound with everything that was stepped over.
  StatusOr<ResumeChoice> ChooseForResume() const;

  LoadAttempts Attempts() const { return LoadAttempts(root_ + "/load_attempts.json"); }

 private:
  Status MoveLatest(const std::string& name) const;
  // Nobody looks at it any more; its attempts are forgotten.
  Status SetAside(int iteration, LoadAttempts& attempts) const;
  void Prune(int newest, int keep) const;
  void NoteLatest(const std::string& chosen, std::vector<std::string>& notes) const;

  std::string root_;
};

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_CHECKPOINT_FOLDER_H_
