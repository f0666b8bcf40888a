// Tells the coordinator regularly that this process lives, from a thread of its own: whatever the
// training thread does, it never looks dead. After a step it tells sooner, within a quarter of the
// interval: where iterations are short, its pace is known a few of them earlier.
//
//   HeartbeatThread heartbeat(options.heartbeat_interval, position, control, injector);
//
// Beats from construction (at once) to destruction, which joins the thread.
#ifndef RECYCLE_EXECUTOR_HEARTBEAT_H_
#define RECYCLE_EXECUTOR_HEARTBEAT_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "recycle/executor/control_link.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/position.h"

namespace recycle {

// Peak resident memory of this process, from /proc/self/status; 0 if the kernel does not tell.
std::int64_t PeakResidentBytes();

class HeartbeatThread {
 public:
  // The references must outlive the thread.
  HeartbeatThread(std::chrono::milliseconds interval, const Position& position,
                  ControlLink& control, FaultInjector& injector);
  ~HeartbeatThread();
  HeartbeatThread(const HeartbeatThread&) = delete;
  HeartbeatThread& operator=(const HeartbeatThread&) = delete;

 private:
  void Loop();

  const std::chrono::milliseconds interval_;
  const Position& position_;
  ControlLink& control_;
  FaultInjector& injector_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_HEARTBEAT_H_
