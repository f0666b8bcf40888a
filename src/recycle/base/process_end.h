// How a process ended, out of waitpid's status word.
#ifndef RECYCLE_BASE_PROCESS_END_H_
#define RECYCLE_BASE_PROCESS_END_H_

namespace recycle {

struct ProcessEnd {
  bool by_signal = false;
  int number = 0;  // the signal's number, or the exit code
};

ProcessEnd DecodeWaitStatus(int wait_status);

}  // namespace recycle

#endif  // RECYCLE_BASE_PROCESS_END_H_
