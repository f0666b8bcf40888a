// The life of a worker after its first Hello: regroup, run iterations, regroup again. An
// interpreter of the plan's actions: it executes its worker's queue in exactly the given order.
//
// A generation: Prepare -> open endpoints, answer with the Ledger -> Resume -> connect -> either
// finish step t everywhere (somebody has its norm), or begin iteration t from zeroed sums -> go on
// until the next Prepare. While the loop waits or works, ControlMailbox interrupts it.
//
// Belongs to the training thread.
#ifndef RECYCLE_EXECUTOR_TRAINING_LOOP_H_
#define RECYCLE_EXECUTOR_TRAINING_LOOP_H_

#include <memory>
#include <optional>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/exit_code.h"
#include "recycle/base/status.h"
#include "recycle/executor/action_runner.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/control_mailbox.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/micro_batch_results.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/executor/peer_network.h"
#include "recycle/executor/progress.h"
#include "recycle/executor/trace_writer.h"
#include "recycle/nn/stage_model.h"

namespace recycle {

// What the loop works with; all of it must outlive the loop.
struct TrainingServices {
  ControlLink& control;
  ControlMailbox& mailbox;
  PeerNetwork& network;
  FaultInjector& injector;
  Progress& progress;
  const Clock& clock;
};

class TrainingLoop {
 public:
  // `model` is this worker's stage at version 0.
  TrainingLoop(const ExecutorOptions& options, const TrainingServices& services,
               const BatchSource& batches, StageModel& model);

  // Runs until the job is over. Returns kCancelled when told to leave, kUnavailable when the
  // control link is gone, else what went wrong here for good: last words.
  Status Run();

 private:
  // Prepare -> Ledger -> Resume -> connected.
  StatusOr<Resume> Regroup(const Prepare& prepare);
  // Runs the generation until it ends; OK = all iterations are done.
  Status RunGeneration(const Resume& resume);
  Status FinishStep(int iteration);
  Status RunIteration();
  Status RunAction(const Action& action);
  StatusOr<ActionTimes> Execute(const Action& action);
  Status ExecuteStepAction(ActionKind kind);
  void MakeStep();
  // What is left of iteration `version` - 1: its validation loss, its report.
  Status CloseLastIteration();
  StatusOr<std::optional<double>> ValidationLoss(int iteration);
  void SendFinished();
  bool IsOver() const;

  const ExecutorOptions& options_;
  const TrainingServices services_;
  ActionRunner runner_;
  OptimizerStep step_;
  MicroBatchResults results_;
  TraceWriter trace_;
  std::shared_ptr<const Plan> plan_;
  const std::vector<Action>* queue_ = nullptr;  // this worker's, in plan_
  std::optional<IterationDone> unreported_;     // of the last stage
  int attempt_ = 0;                             // at iteration `attempted_`
  int attempted_ = -1;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_TRAINING_LOOP_H_
