// How long a worker's F, I and W take, measured in its first iterations: the coordinator compares
// it with what the plan says (coordinator/cost_review.h).
//
// The first kWarmUp iterations of the process do not count: allocators and caches are cold. The
// medians of the kMeasured after them do.
//
//   meter.Note(ActionKind::kForward, iteration, took, planned);
//   if (std::optional<MeasuredCosts> costs = meter.TakeIfDone(iteration)) control.Send(*costs);
//
// Belongs to the training thread.
#ifndef RECYCLE_EXECUTOR_COST_METER_H_
#define RECYCLE_EXECUTOR_COST_METER_H_

#include <map>
#include <optional>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/plan/action.h"
#include "recycle/plan/costs.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// What the calling thread has computed so far: where workers share cores, it does not contain
// their neighbours' turns.
Duration ThreadCpuTime();

class CostMeter {
 public:
  static constexpr int kWarmUp = 2;    // iterations
  static constexpr int kMeasured = 8;  // iterations

  // Not `on`: it never has anything to tell.
  explicit CostMeter(bool on) : on_(on) {}

  bool on() const { return on_; }
  // An action of `iteration` (from 0, never falling by more than what is open) took so long. I and
  // W share a B as they do in `planned`, equally if that has neither. Actions without a micro-batch
  // are of no interest.
  void Note(ActionKind kind, int iteration, Duration took, const StageCosts& planned);

  // `iteration` begins. Once, when enough has been measured and there was at least an F and a
  // backward pass; from then on the meter is off.
  std::optional<MeasuredCosts> TakeIfDone(int iteration);

 private:
  bool on_;
  std::optional<int> first_;                        // iteration
  std::map<ActionKind, std::vector<double>> took_;  // ns, of F, I and W
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_COST_METER_H_
