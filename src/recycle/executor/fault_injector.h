// Carries out the job's faults (--inject) in this process: at each named point the training engine
// asks whether one is due. A fault fires once in a job's life: before the deed it leaves a stamp,
// {fault_folder}/fault-<index>-<k>-<i>.json, and a stamp that is already there means it has fired,
// be it in an earlier life of this worker:
//
//   {"index":0,"worker":"1:1","pid":71,"point":"F","iteration":20,"monotonic_ns":1,"unix_s":1.5}
//
//   injector.At(FaultPoint::kForward, iteration, action);   // half-way through the action
//
// "of iteration n" at heartbeat and join means the first one not before iteration n: heartbeats and
// copies do not keep step with iterations.
//
// Thread-safe: points lie in the training, heartbeat, links' and copies' threads.
#ifndef RECYCLE_EXECUTOR_FAULT_INJECTOR_H_
#define RECYCLE_EXECUTOR_FAULT_INJECTOR_H_

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/executor_options.h"

namespace recycle {

class FaultInjector {
 public:
  // The references must outlive the injector.
  FaultInjector(const ExecutorOptions& options, ControlLink& control, const Clock& clock);

  // How a `drop` fault breaks the link to a peer; one whose link is not there yet waits for the
  // next time its point is passed.
  struct LinkCutter {
    std::function<bool(WorkerId peer)> has_link;
    std::function<void(WorkerId peer)> cut;
  };
  // Set before the first point but `start` is passed.
  void SetLinkCutter(LinkCutter cutter);

  // What a `corrupt` fault does; called in the training thread.
  void SetCorrupter(std::function<void()> corrupt) { corrupt_ = std::move(corrupt); }

  // Fires what is due at `point` of `iteration` (0-based); `action` is the running one, if any. A
  // kill does not return. Costs next to nothing when no fault of this worker has this point.
  void At(FaultPoint point, int iteration, const std::optional<Action>& action = std::nullopt);

  // Is a fault still to come at `point`? Hooks need not be installed otherwise.
  bool Armed(FaultPoint point) const;

  // What a `slow` fault makes of an action's duration now; 1 without one.
  double SlowFactor() const;

  // Reports the faults of this worker that never fired; at the end of the job.
  void ReportUnfired();

 private:
  struct ArmedFault {
    int index = 0;  // into options.faults
    Fault fault;
  };

  bool Due(const Fault& fault, FaultPoint point, int iteration,
           const std::optional<Action>& action) const;
  std::string StampPath(int index) const;
  void WriteStamp(const ArmedFault& armed, int iteration) const;
  void Fire(const ArmedFault& armed, int iteration);
  void SlowDown(const Fault& fault);

  const WorkerId worker_;
  const int agent_pid_;
  const int launcher_pid_;
  const std::string folder_;
  ControlLink& control_;
  const Clock& clock_;
  LinkCutter link_cutter_;
  std::function<void()> corrupt_;
  mutable std::mutex mutex_;
  std::vector<ArmedFault> armed_;  // those of this worker that have not fired
  double slow_factor_ = 1.0;
  std::optional<TimePoint> slow_until_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_FAULT_INJECTOR_H_
