// What the training thread computes, as heartbeats tell it: the coordinator judges by it whether a
// worker still makes progress (docs/RECOVERY.md, "Who notices"). Waiting for an input is no
// computing.
//
//   watch.Expect(planned);            // training thread: the next action
//   watch.Start();                    // its inputs are there
//   watch.Finish(end - start);
//   watch.Read();                     // heartbeat thread
//
// Thread-safe.
#ifndef RECYCLE_EXECUTOR_ACTION_WATCH_H_
#define RECYCLE_EXECUTOR_ACTION_WATCH_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "recycle/base/clock.h"
#include "recycle/plan/costs.h"

namespace recycle {

class ActionWatch {
 public:
  // `planned`: the action's duration; 0 = of no interest here, as all that waits for peers.
  void Expect(Ticks planned);
  void Start();
  // Absent: it did not happen.
  void Finish(std::optional<Duration> took);

  // As in Heartbeat.
  struct Reading {
    std::int64_t actions_done = 0;
    Ticks running_ticks = 0;
    double ns_per_tick = 0;
  };
  Reading Read() const;

 private:
  mutable std::mutex mutex_;
  Ticks planned_ = 0;
  bool runs_ = false;
  std::int64_t actions_done_ = 0;
  double ticks_done_ = 0;  // each action counts less the longer ago it was; as the next
  double ns_done_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_ACTION_WATCH_H_
