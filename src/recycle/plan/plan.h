// A plan: the job's shape, who is dead, the costs, and the schedule of every live worker. The
// planner writes it, `Validate` proves it, `Timeline` times it, the workers run it. As a file:
// JSON, "format": "recycle-plan/1" (plan_json.h).
//
// Plain data; safe to share between threads while nobody changes it.
#ifndef RECYCLE_PLAN_PLAN_H_
#define RECYCLE_PLAN_PLAN_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/plan/costs.h"
#include "recycle/plan/schedule.h"

namespace recycle {

// How stages are laid on the worker columns when a worker has several.
enum class Placement : std::uint8_t {
  kInterleaved,  // column of stage s is s mod PP
  kV,            // two stages a worker: column min(s, 2 * PP - 1 - s)
};

struct Parallelism {
  int data = 1;                                   // DP, pipelines
  int pipeline = 1;                               // PP, worker columns
  int tensor = 1;                                 // TP
  int virtual_stages = 1;                         // stages per worker
  Placement placement = Placement::kInterleaved;  // matters when virtual_stages > 1

  int num_stages() const { return pipeline * virtual_stages; }
  int num_workers() const { return data * pipeline; }
  // The worker column (WorkerId::stage) that runs `stage`; the identity when virtual_stages is 1.
  StageId Column(StageId stage) const;
  bool operator==(const Parallelism&) const = default;
};

struct PlanOptions {
  bool decoupled = true;  // false: only F and B
  bool staggered = true;  // a stage's next iteration waits for that stage's own step only
  bool operator==(const PlanOptions&) const = default;
};

// A straggler: every F, I, W and B of `worker` takes `factor` times as long; factor > 0.
struct SlowWorker {
  WorkerId worker;
  double factor = 1.0;
  bool operator==(const SlowWorker&) const = default;
};

// What a worker has already done of an open iteration (plans for the rest of an iteration).
struct InitialState {
  WorkerId worker;
  int iteration = 0;
  std::vector<Action> done;
  bool operator==(const InitialState&) const = default;
};

// Failure normalization: live worker `from` becomes worker `to` before the plan runs.
struct CopyMove {
  WorkerId from;
  WorkerId to;
  bool operator==(const CopyMove&) const = default;
};

struct Plan {
  Parallelism parallel;
  int micro_batches = 1;         // M, per pipeline
  std::vector<WorkerId> failed;  // places without a worker, ascending
  PlanOptions options;
  CostProfile costs;
  std::vector<SlowWorker> slow;
  std::vector<InitialState> initial;
  std::vector<StageId> committed;  // only with `initial`
  std::vector<CopyMove> copies;
  Schedule workers;
  // Figures as stated by whoever made the plan; `recycle check` recomputes them. In ticks.
  std::optional<Ticks> makespan;
  std::optional<Ticks> period;
  std::optional<Ticks> lower_bound;
  std::string method;
  bool operator==(const Plan&) const = default;
};

// The stages that worker column `column` runs, ascending; `virtual_stages` of them.
std::vector<StageId> StagesOfColumn(const Parallelism& parallel, StageId column);

// OK if the plan is well-formed enough for arithmetic: sizes at least 1 and within what memory
// holds, one cost entry per stage, sane costs, ids of workers in range. Says nothing about the
// schedule (Validate does). Error: kInvalidArgument with the value and the rule.
Status CheckPlanShape(const Plan& plan);

// The live workers: all of DP x PP without `failed`, ascending by (pipeline, column).
std::vector<WorkerId> LiveWorkers(const Parallelism& parallel, const std::vector<WorkerId>& failed);

// Live workers per column; size PP.
std::vector<int> LivePerStage(const Parallelism& parallel, const std::vector<WorkerId>& failed);

// Who runs what: the worker of micro-batch b at stage s. Flat and indexed, built in one pass over
// the schedule's F actions.
class Assignment {
 public:
  explicit Assignment(const Plan& plan);
  // nullptr-like (std::nullopt) when no worker runs it.
  std::optional<WorkerId> WorkerOf(StageId stage, MicroBatch micro_batch) const;

 private:
  std::size_t Index(StageId stage, MicroBatch micro_batch) const;
  int num_stages_ = 0;
  int num_pipelines_ = 0;
  int micro_batches_ = 0;
  std::vector<std::int32_t> pipeline_of_;  // -1 = nobody
  Parallelism parallel_;
};

// Appends REDUCE_GRAD, VALIDATE and STEP where they are missing, by plan-format's rule: synchronous
// plans end with REDUCE_GRAD VALIDATE STEP; staggered ones end with REDUCE_GRAD STEP, and VALIDATE
// stands before the stage's first I or B. In memory a plan always has them. A worker with several
// stages does all its REDUCE_GRADs before the first VALIDATE of a synchronous plan, which waits for
// every stage. What is already done (`initial`) and `committed` stages get none.
void AddStepActions(Plan& plan);

}  // namespace recycle

#endif  // RECYCLE_PLAN_PLAN_H_
