// The life of a worker after its first Hello: regroup, run iterations, regroup again. An
// interpreter of the plan's actions: it executes its worker's queue in exactly the given order.
//
// A generation: Prepare -> stop at the end of the running action, open endpoints, answer with the
// Ledger -> Resume -> connect -> send again what Resume says -> the rest of each open iteration ->
// whole iterations until the next Prepare. Nothing that was done is given up: stashes, sums, inbox
// and log stay. While the loop waits or works, ControlMailbox interrupts it. A worker that comes
// back takes over its donor's state at its first Prepare; at a Prepare with `restore` everybody
// takes the state of a checkpoint or of the snapshot it keeps; one that is asked to leave stops
// between two iterations.
//
// Belongs to the training thread.
// Source: section 3.1 of the protocol in docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_TRAINING_LOOP_H_
#define RECYCLE_EXECUTOR_TRAINING_LOOP_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/exit_code.h"
#include "recycle/base/status.h"
#include "recycle/executor/action_runner.h"
#include "recycle/executor/allocation_meter.h"
#include "recycle/executor/boundary.h"
#include "recycle/executor/boundary_log.h"
#include "recycle/executor/checkpoint_writer.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/control_mailbox.h"
#include "recycle/executor/cost_meter.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/micro_batch_ledger.h"
#include "recycle/executor/micro_batch_results.h"
#include "recycle/executor/norm_book.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/executor/pacer.h"
#include "recycle/executor/peer_network.h"
#include "recycle/executor/position.h"
#include "recycle/executor/profile_writer.h"
#include "recycle/executor/quantum_book.h"
#include "recycle/executor/snapshot_keeper.h"
#include "recycle/executor/state_transfers.h"
#include "recycle/executor/trace_writer.h"
#include "recycle/nn/stage_model.h"

namespace recycle {

// What the loop works with; all of it must outlive the loop.
struct TrainingServices {
  ControlLink& control;
  ControlMailbox& mailbox;
  PeerNetwork& network;
  StateTransfers& transfers;
  SnapshotKeeper& snapshots;
  FaultInjector& injector;
  Position& position;
  ProfileWriter& profile;
  const Clock& clock;  // the pacer's, where there is one
  Pacer* pacer;        // null: the worker is not paced
};

class TrainingLoop {
 public:
  // `model` is this worker's stage at version 0.
  TrainingLoop(const ExecutorOptions& options, const TrainingServices& services,
               const BatchSource& batches, StageModel& model);
  ~TrainingLoop() { services_.transfers.Detach(); }
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  // Runs until the job is over. Returns kCancelled when told to leave, kUnavailable when the
  // control link is gone, else what went wrong here for good: last words.
  Status Run();

 private:
  // Prepare -> Ledger -> Resume -> connected.
  StatusOr<Resume> Regroup(const Prepare& prepare);
  // The checkpoint or snapshot that `prepare` names instead of all that this worker has. kAborted
  // if it cannot be loaded: the coordinator knows and prepares something else.
  Status Restore(const Prepare& prepare);
  // Writes the numbers; returns what the version does not tell.
  StatusOr<OptimizerStep::Scalars> LoadRestored(int version, bool from_memory);
  // A worker that comes back: from now on it is where its donor is.
  Status TakeOverState();
  Ledger MakeLedger(Generation generation, Endpoints endpoints);
  // Runs the generation until it ends; OK = all iterations are done.
  Status RunGeneration(const Resume& resume);
  // Before the first action: what is sent again, and parts of the gradient that are void.
  Status SetOut(const OpenIteration& open);
  Status RunOpenIterations(const Resume& resume);
  Status RunRest(const OpenIteration& open);
  Status RunRestAction(const OpenIteration& open, const WorkerSchedule& own, const Action& action);
  Status RunWholeIteration();
  Status RunAction(const Action& action);
  Status Regenerate(const OpenIteration& open, const WorkerSchedule& own, const Action& action);
  Status TakePart(const OpenIteration& open);

  void BeginProfile();
  // Runs `work` at `iteration` and writes it to the trace and the profile.
  Status Traced(const Action& action, int iteration, bool regenerated,
                const std::function<StatusOr<ActionTimes>()>& work);
  StatusOr<ActionTimes> RunOnModel(const Action& action);
  StatusOr<ActionTimes> Timed(const std::function<Status()>& work);
  Status RunStepAction(ActionKind kind);
  Status ReduceGradient();
  // Paced: members of the group leave the round at one time. Before each round of all members.
  Status Meet(ReduceGroup& group);
  void Hold(ActionKind kind);
  Status AwaitCheckpoint();
  Status ValidateFirst();
  Status MakeStep();
  bool staggered() const { return plan_->options.staggered; }
  // The verdict of the iteration before, in staggered plans: VALIDATE before the first I.
  Status JudgeLastStep();
  // By what a Resume knows; between Promise and Connect.
  void ApplyVerdicts(const std::vector<Verdict>& verdicts);
  void ApplyQuanta(const std::vector<Quantum>& quanta);
  // Do the sums of this iteration fit? If not, the coordinator hears it.
  Status CheckSums();
  // Nothing counts any more that was done or received of iteration `from`, `version` at least.
  void DropWork(int from);
  // This worker knows that nobody needs anything of the iteration before any more.
  void CloseIterationBefore();
  // The step before has just turned out final.
  void NoteValidated();
  void DropClosed();
  void CompareStateIfDue();
  void SaveIfDue();
  Status Depart(const Drain& drain);
  void BeginAttempt(int iteration);

  // Is the validation pass after `iteration` due?
  bool IsValidationDue(int iteration) const;
  // What is left of iteration `version` - 1: its validation pass, its report.
  Status CloseLastIteration(bool validate);
  void Report(std::optional<double> validation_loss);
  StatusOr<std::optional<double>> ValidationLoss(int iteration);
  void SendFinished();
  bool IsOver() const;

  const ExecutorOptions& options_;
  const TrainingServices services_;
  StageModel& model_;
  BoundaryLog log_;
  MicroBatchLedger ledger_;
  NormBook norms_;
  QuantumBook quanta_;
  ActionRunner runner_;
  OptimizerStep step_;
  MicroBatchResults results_;  // of iteration `version`
  CheckpointWriter checkpoints_;
  TraceWriter trace_;
  std::optional<AllocationMeter> meter_;  // while a profile is written
  CostMeter costs_;
  std::shared_ptr<const Plan> plan_;          // of whole iterations
  std::optional<Routes> routes_;              // of plan_
  const WorkerSchedule* schedule_ = nullptr;  // this worker's, in plan_
  std::optional<IterationDone> unreported_;   // of the last stage
  TimePoint stepped_at_{};                    // the end of the last step
  bool owes_validation_ = false;              // the pass after iteration `version` - 1
  std::optional<int> compare_state_at_;       // version
  std::map<int, int> attempts_;               // by iteration: generations that worked at it
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_TRAINING_LOOP_H_
