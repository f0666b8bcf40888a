#include "recycle/base/process_end.h"

#include <sys/wait.h>

namespace recycle {

ProcessEnd DecodeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.by_signal = true, .number = WTERMSIG(wait_status)};
  return {.by_signal = false, .number = WEXITSTATUS(wait_status)};
}

}  // namespace recycle
