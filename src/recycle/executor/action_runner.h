// Executes one F, I, W or B of a plan: takes the input from the corpus or the inbox, calls the
// model, keeps the result in the boundary log, notes the action in the ledger, and sends the result
// to whichever worker consumes it. It knows no order.
//
//   runner.SetRoutes(&routes);
//   StatusOr<ActionTimes> times = runner.Run(action, iteration, results);
//
// An action is atomic: an error means that nothing of it has happened but waiting. A result that
// cannot be sent (the peer is gone) does not undo it: it is in the log.
//
// Belongs to the training thread.
#ifndef RECYCLE_EXECUTOR_ACTION_RUNNER_H_
#define RECYCLE_EXECUTOR_ACTION_RUNNER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <set>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/executor/action_watch.h"
#include "recycle/executor/batch_source.h"
#include "recycle/executor/boundary.h"
#include "recycle/executor/boundary_log.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/micro_batch_ledger.h"
#include "recycle/executor/micro_batch_results.h"
#include "recycle/executor/norm_book.h"
#include "recycle/executor/pacer.h"
#include "recycle/executor/peer_network.h"
#include "recycle/executor/quantum_book.h"
#include "recycle/nn/stage_model.h"
#include "recycle/plan/action.h"

namespace recycle {

// When an action ran: `start` is when its input was there.
struct ActionTimes {
  TimePoint start;
  TimePoint end;
};

// What the runner works with; all of it must outlive the runner.
struct RunnerServices {
  StageModel& model;
  const BatchSource& batches;
  PeerNetwork& network;
  FaultInjector& injector;
  const Clock& clock;  // the pacer's, where there is one
  ActionWatch& watch;
  BoundaryLog& log;
  MicroBatchLedger& ledger;
  NormBook& norms;  // of the iterations before: they ride on what is sent
  QuantumBook& quanta;
  Pacer* pacer = nullptr;  // null: actions take as long as they take
};

class ActionRunner {
 public:
  ActionRunner(const ExecutorOptions& options, const RunnerServices& services);

  // From now on results go where `routes` say; it must outlive its use.
  void SetRoutes(const Routes* routes) { routes_ = routes; }

  // `action` has a micro-batch and belongs to this worker. The last stage records losses in
  // `results`. Errors: kAborted, kUnavailable: a new generation is due.
  StatusOr<ActionTimes> Run(const Action& action, int iteration, MicroBatchResults& results);

  // Makes a boundary tensor again whose only log died; `action` is F or I. Its own worker's ledger,
  // results and gradient do not change. `backward_follows`: an I of the same micro-batch comes
  // later, so that this F has to keep what it needs. `beside_next`: the worker is at the iteration
  // after `iteration` already, maybe with the same micro-batch. Errors as above.
  StatusOr<ActionTimes> Regenerate(const Action& action, int iteration, bool backward_follows,
                                   bool beside_next);
  // Forgets what a Regenerate kept for an I that does not come any more.
  void ForgetRegenerated();

  // Sends what is in the log once more. Error: kNotFound, kDataLoss: the log does not have it.
  Status Resend(const BoundaryTensor& tensor, int iteration, WorkerId to);

  // The forward of a validation micro-batch: no dropout, nothing kept for a backward pass, frames
  // of their own kind. `iteration` tells this validation from others. Errors as Run; kUnavailable
  // also if the result cannot be sent.
  Status Evaluate(const Action& forward, int iteration, MicroBatchResults& results);

 private:
  int IndexOf(const Action& action) const {
    return GlobalIndex(action.micro_batch, options_.micro_batches);
  }
  bool is_first() const { return options_.worker.stage.value() == 0; }
  bool is_last() const { return options_.worker.stage.value() + 1 == num_stages_; }
  LayerHook HookFor(FaultPoint point, int iteration, const Action& action);
  // `action` has been computed: on a paced worker, it ends when this returns.
  void Hold(const Action& action, int iteration);
  const Disturbance* FindDisturbance(const Action& action, int iteration) const;

  struct Received {
    at::Tensor tensor;
    std::optional<NormRider> rider;
  };

  // All inputs of the action are there.
  TimePoint NoteStart();
  // F and I: the input, the start, the work, the log, the sending. `stash` names what is kept.
  StatusOr<TimePoint> Forward(const Action& action, int iteration, int stash,
                              MicroBatchResults* results);
  StatusOr<TimePoint> BackwardInput(const Action& action, int iteration, int stash);
  void BackwardWeight(const Action& action, int iteration);
  StatusOr<ForwardInput> PrepareForward(const Action& action, FrameKind kind, int iteration,
                                        std::optional<NormRider>& below);
  void RecordLoss(const Action& action, const at::Tensor& loss, MicroBatchResults& results) const;

  StatusOr<Received> Receive(const Action& action, FrameKind kind, int iteration);
  void PassOn(const Action& action, const BoundaryTensor& tensor, int iteration,
              const at::Tensor& value, const std::optional<NormRider>& rider);
  Status Send(const Action& action, WorkerId to, const FrameKey& key, SharedBytes payload);

  const ExecutorOptions& options_;
  const RunnerServices services_;
  const int num_stages_;
  const Routes* routes_ = nullptr;
  std::set<int> regenerated_;  // stashes of an F by Regenerate, before their I
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_ACTION_RUNNER_H_
