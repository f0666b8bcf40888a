// Deeds of fault injection that hit a whole process, by the operating system's own means.
#ifndef RECYCLE_BASE_PROCESS_FAULT_H_
#define RECYCLE_BASE_PROCESS_FAULT_H_

#include <sys/types.h>

#include <optional>

namespace recycle {

// SIGKILL. Does not return when `pid` is this process.
void KillProcess(pid_t pid);

// SIGKILL for `launcher`, with which everything ends that it has started, this process included;
// this one alone if it is 0. Does not return.
[[noreturn]] void KillJob(pid_t launcher);

// SIGSTOP; with `for_seconds`, SIGCONT after that time, sent by a small process that holds no
// descriptor of this one and dies with the thread that called. When `pid` is this process the call
// returns after it was continued.
void StopProcess(pid_t pid, std::optional<double> for_seconds);

// From now on every write of this process to a file fails with EFBIG, as on a full disk; sockets
// and pipes are not touched.
void FailEveryFileWrite();

}  // namespace recycle

#endif  // RECYCLE_BASE_PROCESS_FAULT_H_
