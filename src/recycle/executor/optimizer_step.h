// The end of an iteration on one stage: open -> reduced -> stepped -> validated. Keeps what must
// outlive a regroup: the version (steps made), the reduced gradient, and how the last steps were
// judged.
//
//   RC_RETURN_IF_ERROR(step.Reduce(results, stop_requested));   // with its commit round
//   RC_RETURN_IF_ERROR(step.Validate());                        // the global norm
//   RC_RETURN_IF_ERROR(step.Step(/*synchronous=*/true));        // local
//
// Synchronous: nobody steps t before it has the verdict of t, which needs an entry of every stage,
// made after that stage's commit round. So at a worker's own step every live worker holds its
// reduced gradient of t: t is closed, and R goes with the step.
//
// Staggered: there is no Validate; Step goes by the verdict if it is known, else it steps as if
// nothing had to be clipped and keeps the way back (step_undo.h). The verdict comes in the next
// iteration (norm_book.h), and the last stage judges:
//
//   if (const auto correction = step.Judge()) { ... }   // a generation applies it: Apply
//   if (step.Settle()) { ... }                          // the step before turned out right
//   step.Close();                                       // R and the bits are not needed any more
//
// Belongs to the training thread.
// Source: the paper's section on the staggered optimizer; "The step" in docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_OPTIMIZER_STEP_H_
#define RECYCLE_EXECUTOR_OPTIMIZER_STEP_H_

#include <cstdint>
#include <functional>
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
#include "recycle/executor/norm_book.h"
#include "recycle/executor/norm_exchange.h"
#include "recycle/executor/peer_network.h"
#include "recycle/executor/quantum_book.h"
#include "recycle/executor/step_undo.h"
#include "recycle/nn/stage_model.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class OptimizerStep {
 public:
  // Takes over the model's gradient accumulators. The references must outlive this.
  OptimizerStep(const ExecutorOptions& options, StageModel& model, PeerNetwork& network,
                FaultInjector& injector, NormBook& norms, QuantumBook& quanta);

  int version() const { return version_; }
  // The step that made `version()` is final.
  bool validated() const { return validated_; }
  // Has this worker the verdict of iteration `version()`? Then every live worker has R.
  bool holds_norm() const { return norms_.Find(version_) != nullptr; }
  // All workers stop here: the verdict of iteration `version()` - 1.
  bool stop_agreed() const { return stop_agreed_; }
  // Do all workers wait for the verdict of iteration `version()` before they step, though steps are
  // staggered? All say the same of an iteration. Needs validated().
  bool IsSynchronous() const;

  // Which parts of the reduced gradient of iteration `version()` are here.
  bool Holds(ReducedPart part) const { return reduced_of_ == version_ && gradients_.Holds(part); }
  // The stage is open: whatever parts are here are summed again.
  void DiscardReduced();
  // What has been summed of iteration `version()` is void.
  void DiscardSums();
  // The way back to before the last step is here.
  bool holds_undo() const { return undo_.held(); }

  // REDUCE_GRAD: gradients, the last stage's results and the wish to stop, and the commit round.
  // Errors: kAborted, also if the sums have outgrown their quantum; kUnavailable; kDataLoss: the
  // peers cannot agree.
  Status Reduce(MicroBatchResults& results, bool stop_requested);

  // REDUCE_GRAD of a committed stage: this worker's part in a hand-over that concerns it (see
  // Concerns), of iteration `version()` or, for a worker that has stepped it, of the one before.
  // Errors as Reduce.
  Status TakePart(const HandOver& hand_over, int iteration);
  // Is this worker a member of the group of the hand-over?
  bool Concerns(const HandOver& hand_over) const;

  // VALIDATE: the verdict of iteration `version()`. Needs R: after Reduce, or on a committed stage,
  // even if this worker's commit round was cut short. Errors as above; kDataLoss too if
  // micro-batches are missing.
  Status Validate();

  // The norm of the iteration before, again, for workers that have not stepped it. Errors as above.
  Status ValidateAgain();

  // STEP: steps (clips, or leaves all as it is if the gradient is not finite), empties the
  // gradient, and makes version() + 1. `synchronous`: as IsSynchronous said. Error: kDataLoss if
  // micro-batches are missing.
  Status Step(bool synchronous);

  // --- staggered steps ---

  // Before the gradients of iteration `version()` are summed: who has heard the verdict of the one
  // before tells its peers. Then it is known here. Errors as Reduce.
  Status ShareVerdict();
  // Last stage, after an F of iteration `version()`: judges the step before, and returns its
  // verdict if that asks for another step.
  std::optional<Verdict> Judge();
  // The verdict of the step before is known, and it is right as it was made: true, once.
  bool Settle();
  // What a Resume says: learns it, and makes a wrong step again, from before it. Returns
  // the first iteration of which nothing counts any more that was done by the wrong step.
  std::optional<int> Apply(const std::vector<Verdict>& verdicts);
  // Iterations before `version()` are closed.
  void Close() { undo_.Drop(); }
  // The parameters change places with those before the last step; twice is not at all.
  void SwapUndo() { undo_.SwapParameters(optimizer_); }

  // Last stage: what to tell the coordinator of the iteration before, once it is validated;
  // generation and validation loss are still to be filled in. Once.
  std::optional<IterationDone> TakeReport();

  // What a copy of this stage's state consists of: the numbers of every parameter, and what the
  // version does not tell.
  struct Scalars {
    int version = 0;
    double previous_squared_norm = 0;  // this stage's share, of iteration `version` - 1
    std::optional<Verdict> verdict = std::nullopt;  // of that iteration
    bool stop_agreed = false;
    bool stops_next = false;
    int clean_in_a_row = 0;
    int skipped_in_a_row = 0;
  };
  std::vector<ParameterState> state() { return optimizer_.state(); }
  // What `state` belongs to, in the same order.
  const std::vector<Parameter>& parameters() const { return model_.parameters(); }
  // Of the newest version that is final.
  const Scalars& scalars() const { return final_; }
  // Of the whole gradient of the newest final step, if that is known.
  std::optional<double> final_squared_norm() const {
    return final_.verdict ? std::optional(final_.verdict->squared_norm) : std::nullopt;
  }
  // Takes over `scalars`; the numbers have been written already.
  void Restore(const Scalars& scalars);

  // What the last Step went by; valid until the next Reduce.
  const std::vector<std::span<const float>>& last_gradients() const { return gradients_.reduced(); }
  double last_squared_norm() const { return last_squared_norm_; }
  // It was made as it was, undone by its inverse, and made again by the verdict.
  bool last_was_redone() const { return last_was_redone_; }
  // Makes the step of `iteration` as another worker of the stage made it, on the first parameters,
  // as many as there are gradients.
  void Follow(int iteration, double squared_norm, bool redone,
              const std::vector<std::span<const float>>& gradients);

  // Hash of all parameters and moments: equal on peers at the same version.
  std::uint64_t HashState();

  // As broken memory does: a bit of a parameter flips, for the fault `corrupt`.
  void FlipBit();

  // Canonical parameter name -> SHA-256 of its bytes.
  std::map<std::string, std::string> ParameterHashes();

 private:
  bool is_last() const;
  double ScaleOf(double squared_norm) const;
  // What is here of the gradient asks for another step than that by the gradient as it is: so will
  // the verdict. All workers of the stage say the same. Not with exact rollback.
  bool IsWrongAsItIs() const { return ScaleOf(reduced_squared_norm_) != 1.0; }
  AdamWStep StepOf(int iteration, double scale) const;
  void Run(int iteration, double scale, const std::vector<std::span<const float>>& gradients,
           const std::function<void(int done)>& after_parameter);
  // Before that Run.
  void KeepUndo(int iteration, double scale);
  // As on workers that had stepped before they heard the verdict: inverses are not exact, and all
  // of the stage must have the same bits.
  void StepInVain(int iteration, const std::vector<std::span<const float>>& gradients);
  ReductionRequest MakeRequest();
  Status Evaluate();
  StatusOr<GlobalNorm> Collect(int iteration, const GlobalNorm& own);
  void Finalize(const Verdict& verdict);
  void Poison();

  const ExecutorOptions& options_;
  StageModel& model_;
  PeerNetwork& network_;
  FaultInjector& injector_;
  NormBook& norms_;
  QuantumBook& quanta_;
  std::vector<GradientPoison> poisons_;  // that have not been given
  const bool tied_apart_;                // tied parameters are reduced with another stage
  GradientReduction gradients_;
  AdamW optimizer_;
  StepUndo undo_;

  int version_ = 0;
  int reduced_of_ = -1;                  // the iteration whose R is here
  std::vector<double> reduced_results_;  // goes with R; last stage only
  int evaluated_ = -1;                   // the iteration of the next, and of the own norm
  IterationResults results_;             // decoded
  std::optional<IterationDone> report_;  // of `version_` - 1

  bool validated_ = true;
  bool was_synchronous_ = true;   // the step that made `version_`
  double last_squared_norm_ = 0;  // the global one, of the last final step
  bool last_was_redone_ = false;
  double reduced_squared_norm_ = 0;  // of R, tied parameters included; not with exact rollback
  bool stop_agreed_ = false;
  bool stops_next_ = false;  // asked for in a staggered iteration: all stop after the next one
  int clean_in_a_row_ = 0;   // final steps by the gradient as it was
  int skipped_in_a_row_ = 0;
  Scalars final_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_OPTIMIZER_STEP_H_
