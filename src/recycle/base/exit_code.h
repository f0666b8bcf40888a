// Exit codes of every program of ReCycle.
#ifndef RECYCLE_BASE_EXIT_CODE_H_
#define RECYCLE_BASE_EXIT_CODE_H_

namespace recycle {

enum class ExitCode : int {
  kDone = 0,
  kNo = 1,             // no: an illegal plan, a fault that did not fire, training that diverges
  kUsage = 2,          // bad usage or configuration
  kStageLost = 3,      // a stage lost all its state
  kUnreachable = 4,    // could not reach the coordinator or the store
  kBug = 70,           // RC_CHECK
  kFenced = 75,        // an executor found itself removed from the job
  kInterrupted = 130,  // after SIGINT, with everything saved
  kTerminated = 143,   // after SIGTERM, with everything saved
};

}  // namespace recycle

#endif  // RECYCLE_BASE_EXIT_CODE_H_
