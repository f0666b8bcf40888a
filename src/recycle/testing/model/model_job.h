// The jobs of the recovery model: their shape, plans drawn at random, hashes that stand for the
// computation, and the run without failures. Test-only.
#ifndef RECYCLE_TESTING_MODEL_MODEL_JOB_H_
#define RECYCLE_TESTING_MODEL_MODEL_JOB_H_

#include <array>
#include <cstdint>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/prng.h"
#include "recycle/plan/plan.h"

namespace recycle {

inline constexpr int kModelMicroBatches = 9;  // at most, over all pipelines
inline constexpr int kModelIterations = 3;    // at most

struct ModelJob {
  int data = 2;
  int pipeline = 2;
  int micro_batches = 1;  // data * micro_batches <= kModelMicroBatches
  int iterations = 2;
  bool staggered = false;
  bool tied = false;      // a parameter shared by first and last stage
  bool rounding = false;  // every all-reduce gives other bits: values are not compared with a run
                          // without failures, but all peers must agree
  std::uint64_t seed = 1;

  Parallelism parallel() const { return {.data = data, .pipeline = pipeline}; }
  WorkerId Worker(int number) const {
    return {PipelineId(number / pipeline), StageId(number % pipeline)};
  }
  int Number(WorkerId worker) const {
    return worker.pipeline.value() * pipeline + worker.stage.value();
  }
};

// Rules of docs/RECOVERY.md switched off, to see that the checks bite.
struct BrokenRules {
  bool no_regeneration = false;  // committed stages repeat nothing at all
  bool log_dropped_when_receiver_reduced = false;
  bool undo_dropped_at_step = false;
  bool reduced_dropped_at_step = false;  // and the iteration counts as closed with the own step
  bool no_commit_round = false;
  bool in_place_all_reduce = false;     // a broken one leaves a mixture in the local sum
  bool ledger_without_promise = false;  // an all-reduce may still end after the ledger
  bool tied_apart = false;              // first and last stage decided as two units
  bool early_messages_dropped = false;  // those of a generation that is not resumed yet
  bool outgrown_sums_kept = false;      // by the peers of who has found that a gradient did not fit
};

// A legal plan of whole iterations, drawn at random: any live worker for every micro-batch and
// stage, any order in which every action's inputs come before it.
Plan RandomWholePlan(const ModelJob& job, const std::vector<WorkerId>& failed, std::uint64_t seed);

// What stands for the computation.
inline std::uint64_t Tokens(std::uint64_t seed, std::int32_t iteration, int micro_batch) {
  return HashKeys(
      {1, seed, static_cast<std::uint64_t>(iteration), static_cast<std::uint64_t>(micro_batch)});
}
inline std::uint64_t ForwardOf(std::uint64_t params, std::uint64_t input) {
  return HashKeys({2, params, input});
}
inline std::uint64_t LossGradient(std::uint64_t output) { return HashKeys({3, output}); }
inline std::uint64_t InputGradient(std::uint64_t params, std::uint64_t stash,
                                   std::uint64_t gradient) {
  return HashKeys({4, params, stash, gradient});
}
inline std::uint64_t WeightGradient(std::uint64_t stash, std::uint64_t gradient, int part) {
  return HashKeys({5, stash, gradient, static_cast<std::uint64_t>(part)});
}
inline std::uint64_t StepOf(std::uint64_t params, const std::array<std::uint64_t, 2>& reduced) {
  return HashKeys({6, params, reduced[0], reduced[1]});
}

// What every action of the run without failures gives.
struct UnharmedRun {
  // By iteration (one more than there are), then stage.
  std::vector<std::vector<std::uint64_t>> params;
  // By iteration, stage, micro-batch: F's result, and the gradient that I sends down.
  std::vector<std::vector<std::vector<std::uint64_t>>> outputs;
  std::vector<std::vector<std::vector<std::uint64_t>>> gradients;

  explicit UnharmedRun(const ModelJob& job);
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_MODEL_MODEL_JOB_H_
