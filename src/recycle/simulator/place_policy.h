// Base of the policies under which a worker keeps its place: it does the bookkeeping of who is
// live, and its children say what follows.
//
// Not thread-safe.
#ifndef RECYCLE_SIMULATOR_PLACE_POLICY_H_
#define RECYCLE_SIMULATOR_PLACE_POLICY_H_

#include <vector>

#include "recycle/simulator/failure_policy.h"

namespace recycle {

class PlacePolicy : public FailurePolicy {
 public:
  using FailurePolicy::FailurePolicy;
  Status Start(const std::vector<bool>& filled_blocks) override;
  StatusOr<Reaction> Fail(int block, const Moment& moment) override;
  StatusOr<Reaction> Join(int block, const Moment& moment) override;

 protected:
  // Sets `pace_` for `live_`, which is up to date whenever one of these is called.
  virtual Status UpdatePace() = 0;
  // What follows; `pace_` is the new one already, `before` the old one.
  virtual Reaction OnFailure(const std::vector<int>& places, const Moment& moment,
                             const Pace& before) = 0;
  virtual Reaction OnJoin(const std::vector<int>& places, const Moment& moment,
                          const Pace& before) = 0;

  // Period of 1F1B when N micro-batches are spread over `pipelines`; and that plan.
  StatusOr<Ticks> PeriodOver(int pipelines) const;
  PlanInForce PlanOver(int pipelines) const;
  // Pipelines that the live workers can form, if they may be put anywhere.
  int PossiblePipelines() const;
};

// A join whose cost is a stall of `stall_s`: a running stall begins anew instead, as stalls never
// add up.
Reaction StallOnJoin(double stall_s, const Moment& moment);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_PLACE_POLICY_H_
