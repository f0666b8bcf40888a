// How far this executor is: written by the training thread, read by the heartbeat and by links'
// threads. Thread-safe.
#ifndef RECYCLE_EXECUTOR_POSITION_H_
#define RECYCLE_EXECUTOR_POSITION_H_

#include <atomic>
#include <cstdint>

#include "recycle/executor/action_watch.h"

namespace recycle {

struct Position {
  std::atomic<std::int64_t> generation = 0;  // the running one; 0 before the first
  std::atomic<int> version = 0;              // steps made = the iteration worked on, 0-based
  ActionWatch watch;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_POSITION_H_
