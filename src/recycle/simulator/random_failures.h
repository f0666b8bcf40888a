// Failures drawn at random: every node fails and is repaired on its own, or takes its neighbour
// with it (a switch, a power supply).
//
// Every node has its own stream of the seed, so the same node fails at the same times whatever the
// others do, and all policies see the same failures. Up-times are exponential or Weibull with mean
// `mtbf_s`; down-times exponential with mean `mttr_s` (0: repaired at once). A correlated failure
// of node n takes node n + 1 (mod their number) too, for the same down-time; a node is up when no
// outage of either kind holds it. Pure and deterministic: integers and libm's log and pow only.
//
//   StatusOr<FailureTrace> trace = DrawFailures({.num_nodes = 400, .mtbf_s = 3.6e6}, 86400);
#ifndef RECYCLE_SIMULATOR_RANDOM_FAILURES_H_
#define RECYCLE_SIMULATOR_RANDOM_FAILURES_H_

#include <cstdint>

#include "recycle/base/status.h"
#include "recycle/simulator/failure_trace.h"

namespace recycle {

struct RandomFailureOptions {
  int num_nodes = 1;
  double mtbf_s = 3.6e6;     // mean up-time of a node in seconds, above 0
  double mttr_s = 0;         // mean down-time in seconds, 0 or more
  double weibull_shape = 1;  // above 0; 1 is exponential, below 1 infant mortality
  double correlated = 0;     // probability that a failure takes the next node too, 0 to 1
  std::uint64_t seed = 1;

  Status Validate() const;
};

// Every node up at time 0, then what happens until `duration_s`. Error: kInvalidArgument for
// options that make no sense, or for more than ten million failures.
StatusOr<FailureTrace> DrawFailures(const RandomFailureOptions& options, double duration_s);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_RANDOM_FAILURES_H_
