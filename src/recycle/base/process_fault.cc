#include "recycle/base/process_fault.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <ctime>

#include "recycle/base/check.h"

namespace recycle {
namespace {

// A child of a process with threads: nothing but async-signal-safe calls. It must hold none of the
// parent's sockets, or peers would not see them closed if the parent dies meanwhile.
[[noreturn]] void ContinueLater(pid_t pid, timespec delay) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  syscall(SYS_close_range, 0U, ~0U, 0U);
  nanosleep(&delay, nullptr);
  kill(pid, SIGCONT);
  _exit(0);
}

}  // namespace

void KillProcess(pid_t pid) { kill(pid, SIGKILL); }

void KillJob(pid_t launcher) {
  kill(launcher == 0 ? getpid() : launcher, SIGKILL);
  for (;;) pause();
}

void StopProcess(pid_t pid, std::optional<double> for_seconds) {
  if (!for_seconds.has_value()) {
    kill(pid, SIGSTOP);
    return;
  }
  double whole = 0;
  const double fraction = std::modf(*for_seconds, &whole);
  const timespec delay = {.tv_sec = static_cast<time_t>(whole),
                          .tv_nsec = static_cast<long>(fraction * 1e9)};
  const pid_t helper = fork();
  RC_CHECK(helper >= 0) << "fork failed";
  if (helper == 0) ContinueLater(pid, delay);
  kill(pid, SIGSTOP);
  // Another process is not waited for; the helper is reaped when this process ends.
  if (pid == getpid()) waitpid(helper, nullptr, 0);
}

void FailEveryFileWrite() {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 0;
  setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace recycle
