// The end of an iteration on one stage: open -> reduced -> norm known -> stepped. Keeps what must
// outlive a regroup: the version (steps made), the reduced gradient and norm of the iteration in
// progress, and this stage's share of the norm of the one before, for workers that still need it.
//
//   RC_RETURN_IF_ERROR(step.Reduce(results, stop_requested));   // with its commit round
//   RC_RETURN_IF_ERROR(step.Validate());                        // the global norm
//   step.Step();                                                // local, cannot fail
//
// Synchronous steps: nobody steps t before it has the global norm of t, and the norm needs an entry
// of every stage, made after that stage's commit round. So at a worker's own step every live worker
// holds its reduced gradient of t: t is closed, and R goes with the step. Belongs to the training
// thread.
#ifndef RECYCLE_EXECUTOR_OPTIMIZER_STEP_H_
#define RECYCLE_EXECUTOR_OPTIMIZER_STEP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/executor/adamw.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/gradient_reduction.h"
#include "recycle/executor/micro_batch_results.h"
#include "recycle/executor/norm_exchange.h"
#include "recycle/executor/peer_network.h"
#include "recycle/nn/stage_model.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class OptimizerStep {
 public:
  // Takes over the model's gradient accumulators. The references must outlive this.
  OptimizerStep(const ExecutorOptions& options, StageModel& model, PeerNetwork& network,
                FaultInjector& injector);

  int version() const { return version_; }
  // Has this worker the global norm of iteration `version()`? Then every live worker has R.
  bool holds_norm() const { return norm_.has_value(); }
  // All workers stop here: the verdict of iteration `version()` - 1.
  bool stop_agreed() const { return stop_agreed_; }

  // Which parts of the reduced gradient of iteration `version()` are here.
  bool Holds(ReducedPart part) const { return gradients_.Holds(part); }
  // The stage is open: whatever parts are here are summed again.
  void DiscardReduced() { gradients_.Discard(); }

  // REDUCE_GRAD: gradients, the last stage's results and the wish to stop, and the commit round.
  // Errors: kAborted, kUnavailable; kDataLoss: the peers cannot agree.
  Status Reduce(MicroBatchResults& results, bool stop_requested);

  // REDUCE_GRAD of a committed stage: this worker's part in a hand-over that concerns it (see
  // Concerns). Errors as Reduce.
  Status TakePart(const HandOver& hand_over);
  // Is this worker a member of the group of the hand-over?
  bool Concerns(const HandOver& hand_over) const;

  // VALIDATE: the global norm of iteration `version()`. Needs R: after Reduce, or on a committed
  // stage, even if this worker's commit round was cut short. Errors as above; kDataLoss too if the
  // norm is not finite or micro-batches are missing.
  Status Validate();

  // The norm of the iteration before, again, for workers that have not stepped it. Errors as above.
  Status ValidateAgain();

  // STEP: clips, steps, empties the gradient, and makes version() + 1. On the last stage returns
  // what to tell the coordinator; generation and validation loss are still to be filled in.
  std::optional<IterationDone> Step();

  // What a copy of this stage's state consists of: the numbers of every parameter, and what the
  // version does not tell.
  struct Scalars {
    int version = 0;
    double previous_squared_norm = 0;
    bool stop_agreed = false;
  };
  std::vector<ParameterState> state() { return optimizer_.state(); }
  // What `state` belongs to, in the same order.
  const std::vector<Parameter>& parameters() const { return model_.parameters(); }
  Scalars scalars() const { return {version_, previous_squared_norm_, stop_agreed_}; }
  // Takes over `scalars`; the numbers have been written already.
  void Restore(const Scalars& scalars);

  // What the last Step went by; valid until the next Reduce.
  const std::vector<std::span<const float>>& last_gradients() const { return gradients_.reduced(); }
  double last_squared_norm() const { return last_squared_norm_; }
  // Makes the step of `iteration` as another worker of the stage made it, on the first parameters,
  // as many as there are gradients.
  void Follow(int iteration, double squared_norm,
              const std::vector<std::span<const float>>& gradients);

  // Hash of all parameters and moments: equal on peers at the same version.
  std::uint64_t HashState();

  // Canonical parameter name -> SHA-256 of its bytes.
  std::map<std::string, std::string> ParameterHashes();

 private:
  bool is_last() const;
  AdamWStep MakeStep(int iteration, double squared_norm) const;
  ReductionRequest MakeRequest();
  StatusOr<GlobalNorm> Collect(int iteration, const GlobalNorm& own);

  const ExecutorOptions& options_;
  StageModel& model_;
  PeerNetwork& network_;
  FaultInjector& injector_;
  const bool tied_apart_;  // tied parameters are reduced with another stage
  GradientReduction gradients_;
  AdamW optimizer_;

  int version_ = 0;
  double own_squared_norm_ = 0;          // this stage's share at `version_`
  std::vector<double> reduced_results_;  // goes with R; last stage only
  IterationResults results_;             // decoded
  std::optional<GlobalNorm> norm_;       // of `version_`
  double previous_squared_norm_ = 0;     // this stage's share at `version_` - 1
  double last_squared_norm_ = 0;         // the global one, of `version_` - 1
  bool stop_agreed_ = false;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_OPTIMIZER_STEP_H_
