// Executes one F, I, W or B of a plan: takes the input from the corpus or the inbox, calls the
// model, sends the result to whichever worker the plan names for the next stage. It knows no order.
//
//   runner.StartPlan(plan);
//   StatusOr<ActionTimes> times = runner.Run(action, iteration, results);
//
// Belongs to the training thread.
#ifndef RECYCLE_EXECUTOR_ACTION_RUNNER_H_
#define RECYCLE_EXECUTOR_ACTION_RUNNER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/executor/batch_source.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/micro_batch_results.h"
#include "recycle/executor/peer_network.h"
#include "recycle/nn/stage_model.h"
#include "recycle/plan/plan.h"

namespace recycle {

// When an action ran: `start` is when its input was there.
struct ActionTimes {
  TimePoint start;
  TimePoint end;
};

class ActionRunner {
 public:
  // The references must outlive the runner.
  ActionRunner(const ExecutorOptions& options, StageModel& model, const BatchSource& batches,
               PeerNetwork& network, FaultInjector& injector, const Clock& clock);

  // From now on results go where `plan` says.
  void StartPlan(const Plan& plan) { assignment_.emplace(plan); }

  // `action` has a micro-batch and belongs to this worker. The last stage records losses in
  // `results`. Errors: kAborted, kUnavailable: the action is void, a new generation is due.
  StatusOr<ActionTimes> Run(const Action& action, int iteration, MicroBatchResults& results);

  // The forward of a validation micro-batch: no dropout, nothing kept for a backward pass, frames
  // of their own kind. `iteration` tells this validation from others. Errors as above.
  Status Evaluate(const Action& forward, int iteration, MicroBatchResults& results);

 private:
  int GlobalIndex(MicroBatch micro_batch) const;
  bool is_first() const { return options_.worker.stage.value() == 0; }
  bool is_last() const { return options_.worker.stage.value() + 1 == num_stages_; }
  LayerHook HookFor(FaultPoint point, int iteration, const Action& action);

  StatusOr<ActionTimes> Forward(const Action& action, int iteration, MicroBatchResults& results);
  StatusOr<ActionTimes> BackwardInput(const Action& action, int iteration);
  void BackwardWeight(const Action& action, int iteration);
  StatusOr<ForwardInput> PrepareForward(const Action& action, FrameKind kind, int iteration);
  Status PassOn(const Action& action, FrameKind kind, int iteration, const at::Tensor& output,
                MicroBatchResults& results);

  StatusOr<at::Tensor> Receive(const Action& action, FrameKind kind, int iteration);
  Status Send(const Action& action, StageId stage, FrameKind kind, int iteration,
              const at::Tensor& tensor);

  const ExecutorOptions& options_;
  StageModel& model_;
  const BatchSource& batches_;
  PeerNetwork& network_;
  FaultInjector& injector_;
  const Clock& clock_;
  const int num_stages_;
  std::optional<Assignment> assignment_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_ACTION_RUNNER_H_
