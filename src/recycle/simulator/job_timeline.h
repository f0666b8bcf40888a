// From a trace of nodes to the life of a job's blocks: which node stands where, from the job's
// start to its end. The same for every policy.
//
// Nodes fill blocks in the order in which the trace first adds them; a node that comes back takes
// its own block if that is free, else the lowest free one. Nodes beyond the blocks wait (FIFO); one
// that waits takes the place of one that goes, at once. A node that first appears after the start
// is a new instance and usable only some seconds later. Everything before the start is ignored.
// Times count from the start.
//
// Pure; plain data.
#ifndef RECYCLE_SIMULATOR_JOB_TIMELINE_H_
#define RECYCLE_SIMULATOR_JOB_TIMELINE_H_

#include <optional>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/simulator/failure_trace.h"

namespace recycle {

struct JobEvent {
  double time_s = 0;
  int block = 0;
  bool join = false;  // a node takes the block; false: the block's node is gone
  bool operator==(const JobEvent&) const = default;
};

struct JobTimeline {
  std::vector<bool> filled;      // by block, at the start
  std::vector<JobEvent> events;  // in the order of time
  double duration_s = 0;
  int failures = 0;          // of nodes that stood in a block
  double mtbf_s = 0;         // duration / failures; infinity without failures
  double mean_repair_s = 0;  // mean time until a lost block is filled again (Little's law)
  double node_s = 0;         // time of nodes that are up, waiting ones too
};

struct TimelineOptions {
  int num_blocks = 1;
  std::optional<double> start_s = {};     // absent: when num_blocks nodes are up for the first time
  std::optional<double> duration_s = {};  // absent: until the trace ends
  double usable_after_s = 0;              // a new instance's time until it is usable
};

// Error: kInvalidArgument if the job never starts, or ends before it does.
StatusOr<JobTimeline> MakeJobTimeline(const FailureTrace& trace, const TimelineOptions& options);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_JOB_TIMELINE_H_
