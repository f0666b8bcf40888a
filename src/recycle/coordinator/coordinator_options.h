// What the coordinator's core is told about the job, and its time-outs.
#ifndef RECYCLE_COORDINATOR_COORDINATOR_OPTIONS_H_
#define RECYCLE_COORDINATOR_COORDINATOR_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

struct CoordinatorOptions {
  Parallelism parallel;
  int micro_batches = 1;
  int iterations = 1;
  bool tied = false;          // tied embeddings: first and last stage reduce and step as one
  bool reproducible = false;  // all workers compute with the same arithmetic
  Duration failure_timeout = std::chrono::seconds(2);  // silence that counts as death
  Duration ask_timeout = std::chrono::milliseconds(50);
  Duration join_timeout = std::chrono::seconds(30);  // for all workers to say hello
  bool checkpoints = false;                          // there may be some to go back to
  bool snapshots = false;                            // workers make some
  int hosts = 1;                                     // pipelines are dealt to them in turn
  bool respawns = false;                             // agents start dead workers anew
  bool role_changes = true;                          // workers may take places of other stages
  std::optional<double> copy_bytes_per_second;       // limit for copies of state; absent: none
  std::optional<std::int32_t> restore_from;  // the job resumes from the checkpoint of this version
  std::int64_t last_generation = 0;          // of an earlier start of the job
  std::optional<double> slow_factor;         // times its peers' time: too slow; absent: never
  int link_faults_allowed = 2;               // the next one within the window removes
  Duration link_fault_window = std::chrono::seconds(60);

  // Error: kInvalidArgument naming the field, its value and the rule.
  Status Validate() const;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_COORDINATOR_OPTIONS_H_
