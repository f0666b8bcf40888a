// How often a checkpoint was loaded without success: a file beside the checkpoints, so that a job
// does not start from the same bad one for ever (users' report: llnl/scr#174).
//
// A load that failed while somebody was there to see it counts against the checkpoint. One that
// just never came to its end (everything was killed) says little about the checkpoint, and counts
// only when it happens again and again.
//
//   LoadAttempts attempts(root + "/load_attempts.json");
//   RC_RETURN_IF_ERROR(attempts.Begin("iter_0000050"));   // durable, before anything is read
//   attempts.Forget("iter_0000050");                   // or Failed
//
// Not thread-safe; one process at a time uses the file.
#ifndef RECYCLE_CHECKPOINT_LOAD_ATTEMPTS_H_
#define RECYCLE_CHECKPOINT_LOAD_ATTEMPTS_H_

#include <map>
#include <string>

#include "recycle/base/status.h"

namespace recycle {

class LoadAttempts {
 public:
  static constexpr int kFailuresAllowed = 2;
  static constexpr int kUnfinishedAllowed = 5;

  // Reads the file; one that is not there or not readable is an empty one.
  explicit LoadAttempts(std::string path);

  // A sentence if the checkpoint is to be stepped over, else "".
  std::string Verdict(const std::string& checkpoint) const;

  // Errors as WriteFileDurably.
  Status Begin(const std::string& checkpoint);
  Status Failed(const std::string& checkpoint);
  // It has loaded, or is gone.
  Status Forget(const std::string& checkpoint);

  const std::string& path() const { return path_; }

 private:
  struct Counts {
    int unfinished = 0;
    int failed = 0;
  };

  Status Write() const;

  const std::string path_;
  std::map<std::string, Counts> counts_;
};

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_LOAD_ATTEMPTS_H_
