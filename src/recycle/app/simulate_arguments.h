// What `recycle simulate` is asked: its options as given, and the simulation they make.
//
// Pure but for reading the files that are named.
#ifndef RECYCLE_APP_SIMULATE_ARGUMENTS_H_
#define RECYCLE_APP_SIMULATE_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/planner/planner.h"
#include "recycle/simulator/job_timeline.h"
#include "recycle/simulator/policy_constants.h"
#include "recycle/simulator/simulated_job.h"

namespace recycle {

// An empty text or absent value is an option that was not given.
struct SimulateArguments {
  int dp = 0;
  int pp = 0;
  int microbatches = 0;
  int tp = 1;
  std::optional<int> gpus_per_node;
  std::optional<int> nodes;
  std::optional<int> micro_batch_size;
  int sequence = 2048;
  std::string profile;
  std::string model;
  std::string device;
  std::string cost;
  std::string trace;
  std::string trace_unit = "ms";  // of two-column curves: ms, s or h
  std::optional<double> start_h;
  std::optional<double> mtbf_hours;
  double weibull_shape = 1;
  double mttr_hours = 0;
  double correlated = 0;
  std::uint64_t seed = 1;
  std::optional<double> hours;
  std::string policy;      // names with commas between; empty: all that exist for the job
  std::string memory_cap;  // empty: PP
  bool no_moves = false;
  bool search = false;
  std::vector<std::string> set;  // NAME=VALUE of policy_constants.h
  std::string audit;
  bool json = false;
  std::string html;
  bool operator==(const SimulateArguments&) const = default;
};

// Everything a simulation needs.
struct SimulationSetup {
  SimulatedJob job;
  PlanRequest plans;  // the same job for the planner, with capacities
  PolicyConstants constants;
  JobTimeline timeline;
  std::vector<std::string_view> policies;
  std::vector<std::string> notes;  // what was assumed, a sentence each
};

// Error: kInvalidArgument, one sentence naming option, value, rule and nearest valid choice, or
// file, line and reason; kNotFound for a file that cannot be read.
StatusOr<SimulationSetup> MakeSimulationSetup(const SimulateArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATE_ARGUMENTS_H_
