// Tokens per second of the model engine: F, I and W of micro-batches one after another, one thread,
// no optimizer. The counterpart is engine_vs_eager.py; run both with bench/engine_vs_eager. And
// what the split of the backward pass costs, and holds in memory.
//
//   engine HIDDEN HEADS MICRO_BATCHES
//   engine split [TOKENS [ROUNDS]]         (default 512 15; TOKENS: of a micro-batch)
//
// Prints tokens per second of CPU time (of this one thread: as the wall clock on an idle machine,
// but steady beside other load), or figures beside what is asked of them.
#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <string_view>

#include "engine_split.h"
#include "recycle/nn/allocator.h"
#include "recycle/nn/stage_model.h"

namespace {

constexpr int kSamples = 2;              // of a micro-batch
constexpr int kMicroBatchesPerStep = 6;  // the gradients are zeroed after as many

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Seconds {
  double forward = 0;
  double input = 0;
  double weight = 0;
};

Seconds RunMicroBatch(recycle::StageModel& stage, const recycle::ForwardInput& in) {
  const double start = CpuSeconds();
  stage.Forward(in);
  const double forward_end = CpuSeconds();
  stage.BackwardInput(in.micro_batch, {}, {});
  const double input_end = CpuSeconds();
  stage.BackwardWeight(in.micro_batch, {});
  return {forward_end - start, input_end - forward_end, CpuSeconds() - input_end};
}

int Usage() {
  fmt::print(stderr,
             "usage: engine HIDDEN HEADS MICRO_BATCHES\n"
             "       engine split [TOKENS [ROUNDS]]      TOKENS: 128 or a multiple\n");
  return 2;
}

int MeasureSplit(int argc, char** argv) {
  const int tokens = argc > 2 ? std::atoi(argv[2]) : 512;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 15;
  if (tokens < 128 || tokens % 128 != 0 || rounds < 1) return Usage();
  recycle::Verdicts verdicts;
  recycle::SplitBackward(tokens, rounds, verdicts);
  verdicts.PrintTotal();
  return verdicts.misses() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  recycle::TuneAllocator();
  at::set_num_threads(1);
  if (argc > 1 && std::string_view(argv[1]) == "split") return MeasureSplit(argc, argv);
  if (argc != 4) return Usage();
  const recycle::ModelOptions options{.num_blocks = 4,
                                      .hidden = std::atoi(argv[1]),
                                      .heads = std::atoi(argv[2]),
                                      .sequence = 128,
                                      .vocabulary = 4096};
  const recycle::Status valid = options.Validate();
  if (!valid.ok()) {
    fmt::print(stderr, "{}\n", std::string(valid.message()));
    return 2;
  }
  recycle::StageModel stage(options, 0, options.num_layers());
  const at::Tensor tokens =
      at::randint(options.vocabulary, {kSamples, options.sequence}, at::kLong);
  const int micro_batches = std::atoi(argv[3]);
  Seconds total;
  double start = 0;
  // One step first, untimed, so that memory and caches are warm.
  for (int m = -kMicroBatchesPerStep; m < micro_batches; ++m) {
    if (m == 0) {
      total = {};
      start = CpuSeconds();
    }
    if (m % kMicroBatchesPerStep == 0) stage.ZeroGradients();
    const Seconds one = RunMicroBatch(
        stage, {.iteration = 0, .micro_batch = m, .input = tokens, .targets = tokens, .hook = {}});
    total.forward += one.forward;
    total.input += one.input;
    total.weight += one.weight;
  }
  const double seconds = CpuSeconds() - start;
  const double ms = 1e3 / micro_batches;
  fmt::print("{:.0f} tokens/s   F {:.2f} ms  I {:.2f} ms  W {:.2f} ms\n",
             micro_batches * kSamples * options.sequence / seconds, total.forward * ms,
             total.input * ms, total.weight * ms);
  return 0;
}
