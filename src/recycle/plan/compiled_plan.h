// A plan compiled for timing: its actions in one topological order as flat arrays, so that a pass
// over an iteration is a few ns per action. Used by timeline.cc only.
//
//   CompiledPlan compiled;
//   RC_RETURN_IF_ERROR(compiled.Compile(plan));
//   std::vector<Ticks> ends = compiled.RunPass(std::vector<Ticks>(num_stages, 0));
//
// Holds no reference to the plan. Not thread-safe. Use one object for many plans: fresh memory
// costs more than the work.
#ifndef RECYCLE_PLAN_COMPILED_PLAN_H_
#define RECYCLE_PLAN_COMPILED_PLAN_H_

#include <cstdint>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/plan/timeline.h"

namespace recycle {

class CompiledPlan {
 public:
  // Orders the actions of `plan` topologically, in place of the plan before. Errors as
  // ComputeTimeline's; there is nothing to run after one.
  Status Compile(const Plan& plan);

  // One iteration: `releases[s]` is when the F's of stage s may start; returns when the step of
  // each stage ends. Workers start where the pass before left them, the first one at rest.
  std::vector<Ticks> RunPass(const std::vector<Ticks>& releases);

  // Start and end of every action in the pass run last, as Timeline::workers; `plan` is the
  // compiled one.
  std::vector<std::vector<TimedAction>> TimedActions(const Plan& plan) const;

 private:
  friend class PlanCompiler;

  // An action. Positions count from 1 in topological order; position 0 is a phantom input that has
  // been there for ever.
  struct Node {
    std::int32_t input = 0;
    std::int32_t worker = 0;
    std::int32_t cost_class = 0;
  };
  // Actions of one kind, stage and speed.
  struct CostClass {
    Ticks duration = 0;
    Ticks input_send = 0;
    std::int32_t gate = 0;  // index into gates_
  };
  // A worker's last action of a stage: its end lets the step of the stage begin.
  struct LastAction {
    std::int32_t stage = 0;
    std::int32_t position = 0;
  };
  // A micro-batch at a stage while a plan is compiled: the positions of its F and of its I or B (or
  // what holds them up), and the worker that ran them. One record, so that a look-up costs one
  // cache line.
  struct Slot {
    std::int32_t outputs[2] = {0, 0};
    std::int32_t worker = 0;
  };
  struct StepCosts {
    Ticks all_reduce = 0;
    Ticks optimizer = 0;
    bool committed = false;  // its step is not part of the plan
  };

  std::vector<Slot> slots_;
  std::vector<Node> nodes_;  // [0] is the phantom
  std::vector<CostClass> classes_;
  std::vector<LastAction> last_actions_;
  std::vector<StepCosts> steps_;
  bool staggered_ = true;
  // State of the passes.
  std::vector<Ticks> gates_;   // per stage, and one more that never holds anything back
  std::vector<Ticks> clocks_;  // per worker
  std::vector<Ticks> ends_;    // per position
};

}  // namespace recycle

#endif  // RECYCLE_PLAN_COMPILED_PLAN_H_
