// The job simulator: a policy's job from start to end on virtual time, and what it got done.
//
//   StatusOr<JobTimeline> timeline = MakeJobTimeline(trace, {.num_blocks = job.num_blocks()});
//   StatusOr<PolicyResult> result = Simulate(request, *timeline, "recycle");   // result->goodput
//
// State between events is constant, so progress is an exact integral: a fault-free hour is 3600 /
// period iterations. A stall stops all progress; an event during a stall begins it anew, stalls
// never add up. Deterministic: equal input, equal bytes. Not thread-safe (the planner caches);
// simulations with planners of their own are independent.
#ifndef RECYCLE_SIMULATOR_SIMULATION_H_
#define RECYCLE_SIMULATOR_SIMULATION_H_

#include <functional>
#include <string>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/simulator/job_timeline.h"
#include "recycle/simulator/policies.h"

namespace recycle {

// What is simulated; outlives the calls it is given to.
struct SimulationRequest {
  const SimulatedJob& job;
  const PolicyConstants& constants;
  SimulationPlanner& planner;
  bool move_roles = true;
};

// A stretch of time without an event. Its first `stall_s` seconds are stalled; then the job runs at
// `rate`. `lost_samples` were lost by the event it begins with. So its samples are
// rate * (to_s - from_s - stall_s) * samples per batch - lost_samples.
struct Interval {
  double from_s = 0;
  double to_s = 0;
  const LivePlaces* live = nullptr;
  double rate = 0;  // whole batches per second
  double period_s = 0;
  double stall_s = 0;
  double lost_samples = 0;
  const FailurePolicy* policy = nullptr;  // whose plan() is in force
};

using IntervalObserver = std::function<Status(const Interval&)>;

struct PolicyResult {
  std::string policy;
  double goodput = 0;          // against fault-free 1F1B of the same costs
  double relative_to_own = 0;  // against the same policy when nothing fails
  double samples = 0;          // done and kept
  double lost_samples = 0;     // done, lost and done again
  double lost_work_hours = 0;  // that, at the rate at which it was done
  double recovery_hours = 0;   // stalled, or without a way to run
  double ettr = 0;             // effective training time ratio: neither of the two / all
  double gpu_hours = 0;        // of all nodes that are up
  double cost_usd = 0;
  bool out_of_memory = false;
  std::string note;
};

// Errors: MakePolicy's, the planner's, the observer's. The observer, if any, sees every interval in
// order.
StatusOr<PolicyResult> Simulate(const SimulationRequest& request, const JobTimeline& timeline,
                                std::string_view policy, const IntervalObserver& observer = {});

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_SIMULATION_H_
