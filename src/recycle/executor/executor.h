// The process behind a worker's rank: an interpreter of actions with no schedule of its own.
//
// RunExecutor connects to nothing but the given ControlLink (and, as told by Resume, to its peers).
// It says Hello, answers Prepare with a Ledger, and runs the plan of each Resume until the job is
// over.
//
// Threads: the caller's thread trains; one thread reads the control link; one sends heartbeats;
// comm has one sender and one receiver per link.
#ifndef RECYCLE_EXECUTOR_EXECUTOR_H_
#define RECYCLE_EXECUTOR_EXECUTOR_H_

#include <optional>

#include "recycle/base/clock.h"
#include "recycle/base/exit_code.h"
#include "recycle/base/ids.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/executor_options.h"

namespace recycle {

struct ExecutorEnd {
  ExitCode code = ExitCode::kDone;
  std::optional<WorkerId> next;  // it was told to take this place: run that one's executor now
};

// Returns when told to Leave (kDone), when the control link is gone (kUnreachable), or after last
// words (kNo: memory, an unreadable corpus). A fenced process does not return: it ends at once with
// kFenced. Closes `control`. Call it after fork and before any thread exists; again, in the same
// process, only for the `next` of the call before.
ExecutorEnd RunExecutor(const ExecutorOptions& options, ControlLink& control, const Clock& clock);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_EXECUTOR_H_
