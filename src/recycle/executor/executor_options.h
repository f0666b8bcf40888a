// Everything one executor needs to know, resolved from the job's config by app/.
#ifndef RECYCLE_EXECUTOR_EXECUTOR_OPTIONS_H_
#define RECYCLE_EXECUTOR_EXECUTOR_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/nn/model_options.h"
#include "recycle/plan/model_shape.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/fault.h"

namespace recycle {

struct OptimizerOptions {
  double lr = 3.0e-4;  // peak learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1.0e-8;
  double weight_decay = 0.1;  // decoupled (AdamW), on matrices only
  double clip = 1.0;          // global gradient norm; 0 = off
  bool cosine = true;         // false: constant after the warm-up
  int warmup = 20;            // iterations of linear warm-up
  double min_lr = 3.0e-5;     // floor of the cosine
};

// For tests: before `worker` sums the gradient of `iteration` with its peers, `value` is added to
// one element of its own sum, once: not finite, or so large that the gradient has to be clipped.
struct GradientPoison {
  WorkerId worker;
  int iteration = 0;  // 0-based
  float value = 0;
};

// For tests: `action` of `iteration` on `worker` takes `delay` of the profile's time longer (paced
// workers), and with `swallowed` what it sends is lost on the way.
struct Disturbance {
  WorkerId worker;
  int iteration = 0;  // 0-based
  Action action;
  Duration delay{};
  bool swallowed = false;
};

// A paced worker (pacer.h): what its actions take, in ms, and what a second of that takes here, in
// seconds.
struct Pace {
  double time_scale = 1;
  CostProfile costs;
};

struct ExecutorOptions {
  WorkerId worker;
  Parallelism parallel;
  int micro_batches = 1;     // M, per pipeline
  int micro_batch_size = 1;  // sequences
  int iterations = 1;
  int validate_every = 0;  // iterations; 0 = never
  std::uint64_t seed = 1234;
  ModelOptions model;
  std::vector<LayerRange> layers;  // one range per stage
  OptimizerOptions optimizer;
  bool exact_rollback = true;      // staggered: to the bits before a step; false: by its inverse
  bool reproducible = false;       // gradients are summed in fixed point
  double presumed_norm = 1.0;      // of the gradient before the first one: their first quantum
  std::string token_file;          // prepared corpus
  double validation_fraction = 0;  // share of the samples kept for validation
  std::string bind_address = "127.0.0.1";
  std::chrono::milliseconds heartbeat_interval{200};
  std::int64_t log_bytes = std::int64_t{256} << 20;  // boundary log kept in memory
  std::string log_folder;            // for the rest of it; empty = the system's temporary folder
  double copy_bytes_per_second = 0;  // of parameters, to workers that come back; 0 = no limit
  int snapshot_every = 0;            // iterations; 0 = never
  int compare_every = 0;             // iterations; 0 = only after somebody came back
  int checkpoint_every = 0;          // iterations; 0 = never
  std::string checkpoint_folder;     // of the job
  std::string trace_file;            // a line per executed action; empty = no trace
  std::string profile_file;          // bytes held and frames sent; empty = not measured
  bool measure_costs = false;        // tell the coordinator what F, I and W take
  std::optional<Pace> pace;          // absent: actions take as long as they take
  std::vector<Disturbance> disturbances;
  std::vector<GradientPoison> poisons;
  // To measure what protection costs: no ledger, no boundary log, no commit round. A failure cannot
  // be recovered from then.
  bool unprotected = false;
  std::vector<Fault> faults;     // the job's whole list; the index is the fault's name
  int all_reduce_fault_hop = 1;  // of the ring: the point all-reduce lies before it
  std::string fault_folder;      // where a fault leaves its time stamp
  int agent = 0;                 // the agent this executor belongs to
  int agent_pid = 0;             // its process, for faults that hit the agent
  int launcher_pid = 0;          // the job's first process, for those that hit everything; 0: none
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_EXECUTOR_OPTIONS_H_
