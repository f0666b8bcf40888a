// Which checkpoint of a run a job goes back to, and the count of attempts to load it: one whose
// load fails again and again is stepped over.
//
//   CheckpointSource source(folder.Checkpoints());
//   const CheckpointSource::Choice choice = source.Choose(/*failed=*/std::nullopt);
//   ...                                   // everybody loads it
//   source.NoteLoaded(*choice.iteration);
//
// Not thread-safe; one process at a time.
#ifndef RECYCLE_APP_CHECKPOINT_SOURCE_H_
#define RECYCLE_APP_CHECKPOINT_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/checkpoint/checkpoint_folder.h"

namespace recycle {

class CheckpointSource {
 public:
  explicit CheckpointSource(std::string folder) : folder_(std::move(folder)) {}

  struct Choice {
    std::optional<int> iteration;    // absent: there is none
    std::vector<std::string> notes;  // a sentence for everything that was stepped over
    std::string why;                 // there is none
  };
  // The newest one that loads; an attempt to load it begins. `failed`: the last attempt at that one
  // has failed.
  Choice Choose(std::optional<int> failed);
  // An attempt to load this one begins. Errors as LoadAttempts.
  Status Begin(int iteration);
  // Everybody has loaded it.
  void NoteLoaded(int iteration);

 private:
  const CheckpointFolder folder_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_CHECKPOINT_SOURCE_H_
