// The time of a paced worker (device.kind: paced), which stands for a device that is not there: it
// computes its own small model, and every action lasts as long as a profile says, whatever the plan
// was made for.
//
// Its clock does not run: it goes from deadline to deadline. An action starts at the end of the one
// before, or when its input comes if that is later; frames carry the time at which they were sent,
// and members of an all-reduce go on from the latest one's. It ends its profiled duration later.
// Then the worker waits until the machine's clock has come as far, so that processes meet, die and
// come back in that order; if it is late (it did not get a CPU), it does not wait, and makes up for
// it at the actions that follow: what a busy machine does to it never shows.
//
//   pacer.Arrive(FrameKind::kActivation, frame.stamp);     // the input
//   start = pacer.Now();
//   ...                                                    // compute
//   pacer.Hold(ActionKind::kForward);
//   Send(..., /*stamp=*/pacer.Now());
//
// Times are points on the machine's clock, durations of the profile times `time_scale`: with 0.01,
// 100 ms of the profile pass in 1 ms. What takes no time by the profile (a regroup) takes what it
// takes here. So processes agree on the time, and it may be compared with the machine's.
//
// Belongs to the training thread, Now() included.
// Source: the rules of timing in docs/PLAN_FORMAT.md, and docs/simulator.md.
#ifndef RECYCLE_EXECUTOR_PACER_H_
#define RECYCLE_EXECUTOR_PACER_H_

#include <functional>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/frame.h"
#include "recycle/comm/reduce_group.h"
#include "recycle/executor/executor_options.h"
#include "recycle/plan/action.h"
#include "recycle/plan/costs.h"

namespace recycle {

// Blocks the calling thread until the machine's clock shows `time`.
using SleepUntil = std::function<void(TimePoint time)>;
void SleepOnMachineClock(TimePoint time);

class Pacer : public Clock {
 public:
  // `wall` is the machine's clock and must outlive this. The costs of `pace` are those of all
  // stages.
  Pacer(StageId stage, const Pace& pace, const Clock& wall,
        SleepUntil sleep_until = SleepOnMachineClock);

  TimePoint Now() const override { return now_; }
  double UnixSeconds() const override { return wall_.UnixSeconds(); }

  // What went on since the last action took its time on the machine's clock: a regroup.
  void CatchUp();

  // A frame of `kind` that was sent to this worker at `sent` is needed now.
  void Arrive(FrameKind kind, TimePoint sent);

  // All members of `group` call it; they go on from the latest one's time. Errors as the group's.
  Status Meet(ReduceGroup& group);

  // What has just been computed was an action of `kind`: it ends, on a worker that is `factor`
  // times as slow as its profile. A B is held as a whole.
  void Hold(ActionKind kind, double factor = 1.0);

  // `duration` of the profile's time passes.
  void Spend(Duration duration);

 private:
  Duration Scaled(Duration duration) const;  // of the profile, on the machine's clock

  const double time_scale_;
  const Clock& wall_;
  const SleepUntil sleep_until_;
  const StageCosts costs_;
  Duration send_from_below_{};
  Duration send_from_above_{};
  TimePoint now_{};
};

// For the process of the job's `place`-th worker, before it has other threads: keeps all of them on
// one CPU, place modulo the CPUs it may use, and has its waits end on time. Without that, waiting
// processes are moved about and are late by tens of milliseconds.
void PreparePacedProcess(int place);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_PACER_H_
