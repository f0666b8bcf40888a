// What reproducible sums cost: an iteration of one stage of four transformer blocks (F, I and W of
// its micro-batches, the reduction and the step), with fixed-point sums and with those of floats,
// in turn.
//
//   build/dev/bench/reproducible [TOKENS [HIDDEN [ROUNDS]]]      (default 512 768 11)
//
// TOKENS: of a micro-batch. Prints the median time of each (CPU time of this one thread, steady
// beside other load), their ratio (the median over the rounds), and where the difference is.
#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "median.h"
#include "recycle/base/check.h"
#include "recycle/comm/device.h"
#include "recycle/executor/adamw.h"
#include "recycle/executor/cost_meter.h"
#include "recycle/executor/gradient_reduction.h"
#include "recycle/nn/allocator.h"
#include "recycle/nn/stage_model.h"

namespace recycle {
namespace {

constexpr int kBlocks = 4;
constexpr int kMicroBatches = 6;
constexpr int kSequence = 128;

struct Times {
  double compute = 0;  // F and I
  double weight = 0;   // W
  double reduce = 0;
  double step = 0;
  double total() const { return compute + weight + reduce + step; }
};

// The middle stage of a pipeline, alone in its group: what an all-reduce costs beside its traffic.
class Stage {
 public:
  Stage(const ModelOptions& model, int tokens, bool reproducible)
      : model_(model, 1, 1 + kBlocks),
        sums_(2 * kMicroBatches),
        gradients_(model_.parameters(), /*apart=*/false, reproducible ? &sums_ : nullptr),
        optimizer_({}, Stepped(model_)),
        group_(*ReduceGroup::Open(*Device::Create("127.0.0.1"), 0, 1, Generation(1))),
        input_(at::randn({tokens / kSequence, kSequence, model.hidden})) {
    sums_.Begin(sums_.QuantumFor(1e6));
  }

  Times RunIteration() {
    Times times;
    for (int m = 0; m < kMicroBatches; ++m) {
      const double begin = ToMilliseconds(ThreadCpuTime());
      const at::Tensor output = model_.Forward(
          {.iteration = iteration_, .micro_batch = m, .input = input_, .targets = {}, .hook = {}});
      model_.BackwardInput(m, at::ones_like(output), {});
      const double computed = ToMilliseconds(ThreadCpuTime());
      model_.BackwardWeight(m, {});
      times.compute += computed - begin;
      times.weight += ToMilliseconds(ThreadCpuTime()) - computed;
    }
    const double begin = ToMilliseconds(ThreadCpuTime());
    ReductionRequest request;
    request.tokens = kMicroBatches;
    const Status reduced = gradients_.Reduce(*group_, nullptr, request);
    RC_CHECK(reduced.ok()) << reduced;
    const double end = ToMilliseconds(ThreadCpuTime());
    optimizer_.Step({.step = ++iteration_, .lr = 1e-6, .gradient_scale = 1}, gradients_.reduced(),
                    {});
    model_.ZeroGradients();
    times.reduce = end - begin;
    times.step = ToMilliseconds(ThreadCpuTime()) - end;
    return times;
  }

 private:
  static std::vector<SteppedParameter> Stepped(StageModel& model) {
    std::vector<SteppedParameter> stepped;
    for (const Parameter& parameter : model.parameters()) {
      stepped.push_back(
          {{parameter.value.data_ptr<float>(), static_cast<std::size_t>(parameter.value.numel())},
           parameter.decay});
    }
    return stepped;
  }

  StageModel model_;
  FixedPointSums sums_;
  GradientReduction gradients_;
  AdamW optimizer_;
  std::unique_ptr<ReduceGroup> group_;
  at::Tensor input_;
  int iteration_ = 0;
};

int Argument(int argc, char** argv, int index, int absent) {
  return argc > index ? std::atoi(argv[index]) : absent;
}

int Measure(int argc, char** argv) {
  const int tokens = Argument(argc, argv, 1, 512);
  const int hidden = Argument(argc, argv, 2, 768);
  const int rounds = Argument(argc, argv, 3, 11);
  if (tokens < kSequence || tokens % kSequence != 0 || hidden < 64 || rounds < 1) {
    fmt::print(stderr, "usage: reproducible [TOKENS [HIDDEN [ROUNDS]]]; TOKENS: {} or a multiple\n",
               kSequence);
    return 2;
  }
  TuneAllocator();
  at::set_num_threads(1);
  const ModelOptions model{.num_blocks = kBlocks,
                           .hidden = hidden,
                           .heads = hidden / 64,
                           .sequence = kSequence,
                           .vocabulary = 256};
  Stage floats(model, tokens, false);
  Stage fixed_point(model, tokens, true);
  std::vector<double> off;
  std::vector<double> on;
  std::vector<double> ratios;
  std::vector<double> weight;
  std::vector<double> reduce;
  for (int round = -1; round < rounds; ++round) {  // the first is warm-up
    const Times without = floats.RunIteration();
    const Times with = fixed_point.RunIteration();
    if (round < 0) continue;
    off.push_back(without.total());
    on.push_back(with.total());
    ratios.push_back(with.total() / without.total());
    weight.push_back((with.weight - without.weight) / without.total());
    reduce.push_back((with.reduce - without.reduce) / without.total());
  }
  fmt::print(
      "{} tokens, hidden {}, {} blocks, {} micro-batches: off {:.1f} ms  on {:.1f} ms  ratio "
      "{:.4f}  (W {:+.1f}%, reduction {:+.1f}%)\n",
      tokens, hidden, kBlocks, kMicroBatches, Median(off), Median(on), Median(ratios),
      100 * Median(weight), 100 * Median(reduce));
  return 0;
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) { return recycle::Measure(argc, argv); }
