// A planning job in flat arrays: what every algorithm of the planner works on. Made once from a
// PlanRequest, whose mistakes are found here.
//
// Micro-batches are numbered m * DP + k (m first); a *slot* is (micro-batch, stage), numbered
// micro_batch * num_stages + stage; a worker is numbered column * DP + pipeline. With one stage per
// worker columns and stages are the same.
//
// Plain data; safe to share between threads while nobody changes it.
#ifndef RECYCLE_PLANNER_FLAT_JOB_H_
#define RECYCLE_PLANNER_FLAT_JOB_H_

#include <array>
#include <cstdint>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/planner.h"

namespace recycle {

// Memory sums are doubles; a capacity counts as kept when it is exceeded by rounding alone.
inline constexpr double kCapacitySlack = 1.0 + 1e-9;

struct FlatJob {
  int num_pipelines = 1;      // DP
  int num_columns = 1;        // PP
  int num_stages = 1;         // PP * virtual stages
  int micro_batches = 1;      // M
  int num_micro_batches = 1;  // N = DP * M
  bool decoupled = true;
  bool staggered = true;
  bool has_stragglers = false;
  std::vector<StageCosts> stages;
  std::vector<Ticks> send_forward;     // by stage: to the next one; the last entry is 0
  std::vector<Ticks> send_backward;    // by stage: from the next one; the last entry is 0
  std::vector<int> column;             // by stage
  std::vector<double> capacity;        // by column, with slack; infinity = no limit
  std::vector<std::vector<int>> live;  // by column: live pipelines, ascending
  std::vector<double> slow;            // by worker: factor, 1 = as fast as planned
  // By (stage * DP + pipeline): F, I, W, B of that worker, indexed by ActionKind.
  std::vector<std::array<Ticks, 4>> durations;

  // Set by MakeFlatJob: slot / num_stages is (slot * slot_factor) >> slot_shift for every slot,
  // which is several times faster than a division where slots are looked at by the hundred million.
  std::uint64_t slot_factor = 0;
  int slot_shift = 0;

  int num_workers() const { return num_columns * num_pipelines; }
  int num_slots() const { return num_micro_batches * num_stages; }
  // Actions with a micro-batch in a whole schedule.
  std::size_t num_actions() const {
    return static_cast<std::size_t>(num_slots()) * (decoupled ? 3 : 2);
  }
  int MicroBatchAt(int slot) const {
    return static_cast<int>((static_cast<std::uint64_t>(slot) * slot_factor) >> slot_shift);
  }
  int StageAt(int slot) const { return slot - MicroBatchAt(slot) * num_stages; }
  int WorkerOf(int stage, int pipeline) const {
    return column[static_cast<std::size_t>(stage)] * num_pipelines + pipeline;
  }
  int LiveAt(int stage) const {
    return static_cast<int>(
        live[static_cast<std::size_t>(column[static_cast<std::size_t>(stage)])].size());
  }
  // ceil(N / live): what a worker of this stage runs at most when the work is even.
  int Quota(int stage) const { return (num_micro_batches + LiveAt(stage) - 1) / LiveAt(stage); }
  MicroBatch MicroBatchOf(int id) const {
    return MicroBatch{PipelineId(id % num_pipelines), id / num_pipelines};
  }
};

// Errors: kInvalidArgument for a request that makes no sense (sizes, ids, costs, capacities below
// one micro-batch, durations whose sums would overflow), kFailedPrecondition for a stage without a
// live worker.
StatusOr<FlatJob> MakeFlatJob(const PlanRequest& request);

// `job` as one pipeline with one worker per stage and `micro_batches` micro-batches, at the same
// costs, capacities and options; no failures, no stragglers.
FlatJob SinglePipeline(const FlatJob& job, int micro_batches);

// Rewrites `live` to `live_per_column` workers each, pipelines 0..n-1, and fills what depends on
// it.
FlatJob WithLiveCounts(const FlatJob& job, const std::vector<int>& live_per_column);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_FLAT_JOB_H_
