// The backward pass of a stage in three ways, in CPU time of this one thread:
//
// * ordinary: libtorch's autograd of the same blocks, written with its differentiable operators as
//   one would without ReCycle;
// * whole: the engine's I, then W, of one micro-batch after the other: what the action B is;
// * split: the I of all micro-batches, then their W: as far apart as a schedule puts them.
//
// B samples, T tokens each, D hidden width, N = B*T.
#include "engine_split.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "median.h"
#include "recycle/base/check.h"
#include "recycle/executor/allocation_meter.h"
#include "recycle/executor/cost_meter.h"
#include "recycle/nn/stage_model.h"

namespace recycle {
namespace {

constexpr int kBlocks = 4;
constexpr int kMicroBatches = 4;
constexpr int kSequence = 128;
constexpr int kHeadWidth = 64;
constexpr double kMega = 1e6;

// The blocks as a graph of autograd, with the stage's values.
class OrdinaryBlocks {
 public:
  OrdinaryBlocks(const ModelOptions& options, const std::vector<Parameter>& parameters)
      : options_(options),
        future_(at::full({kSequence, kSequence}, -std::numeric_limits<float>::infinity()).triu(1)) {
    for (const Parameter& parameter : parameters) {
      leaves_[parameter.name] = parameter.value.detach().clone().requires_grad_(true);
    }
  }

  at::Tensor Forward(at::Tensor x_BTD) const {
    for (int block = 0; block < kBlocks; ++block) x_BTD = Block(x_BTD, fmt::format("h.{}.", block));
    return x_BTD;
  }
  void ZeroGradients() {
    for (auto& [name, leaf] : leaves_) {
      if (leaf.grad().defined()) leaf.mutable_grad().zero_();
    }
  }
  at::Tensor Gradient(const std::string& name) const { return leaves_.at(name).grad(); }

 private:
  const at::Tensor& Leaf(const std::string& name) const { return leaves_.at(name); }
  at::Tensor Linear(const at::Tensor& x, const std::string& name) const {
    return at::linear(x, Leaf(name + ".weight"), Leaf(name + ".bias"));
  }
  at::Tensor Norm(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {x.size(-1)}, Leaf(name + ".weight"), Leaf(name + ".bias"), 1e-5);
  }

  at::Tensor Attention(const at::Tensor& qkv) const {
    const std::int64_t batch = qkv.size(0);
    const std::int64_t heads = options_.heads;
    const auto apart = [&](const at::Tensor& part) {
      return part.reshape({batch, kSequence, heads, kHeadWidth})
          .transpose(1, 2)
          .reshape({batch * heads, kSequence, kHeadWidth});
    };
    const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
    const at::Tensor scores = at::baddbmm(future_, apart(parts[0]), apart(parts[1]).transpose(1, 2),
                                          1, 1.0 / std::sqrt(static_cast<double>(kHeadWidth)));
    return at::bmm(at::softmax(scores, -1), apart(parts[2]))
        .view({batch, heads, kSequence, kHeadWidth})
        .transpose(1, 2)
        .reshape({batch, kSequence, options_.hidden});
  }

  at::Tensor Block(const at::Tensor& x, const std::string& h) const {
    const at::Tensor qkv = Linear(Norm(x, h + "ln_1"), h + "attn.qkv");
    const at::Tensor x2 = x.add(Linear(Attention(qkv), h + "attn.proj"));
    const at::Tensor gelu = at::gelu(Linear(Norm(x2, h + "ln_2"), h + "mlp.fc"), "tanh");
    return x2.add(Linear(gelu, h + "mlp.proj"));
  }

  const ModelOptions options_;
  const at::Tensor future_;
  std::map<std::string, at::Tensor> leaves_;
};

struct BackwardTimes {
  double ordinary = 0;
  double whole = 0;
  double input = 0;   // split: the I
  double weight = 0;  // and the W
  double split() const { return input + weight; }
};

class SplitBench {
 public:
  SplitBench(const ModelOptions& options, int tokens)
      : stage_(options, 1, 1 + kBlocks), ordinary_(options, stage_.parameters()) {
    for (int m = 0; m < kMicroBatches; ++m) {
      inputs_.push_back(at::randn({tokens / kSequence, kSequence, options.hidden}));
      gradients_.push_back(at::randn(inputs_.back().sizes()));
    }
  }

  // Whoever comes first in one round is the last in the next.
  BackwardTimes Round() {
    BackwardTimes times;
    for (int way = 0; way < 3; ++way) {
      switch ((way + num_rounds_) % 3) {
        case 0:
          Ordinary(times);
          break;
        case 1:
          Whole(times);
          break;
        case 2:
          Split(times);
          break;
      }
    }
    ++num_rounds_;
    return times;
  }

  // The largest difference between the sums of both after a round, by the largest number in them.
  double Difference() {
    double difference = 0;
    for (const Parameter& parameter : stage_.parameters()) {
      const at::Tensor expected = ordinary_.Gradient(parameter.name);
      const double largest = expected.abs().max().item<float>();
      const double off = expected.sub(parameter.gradient).abs().max().item<float>();
      difference = std::max(difference, off / largest);
    }
    return difference;
  }

  // Bytes of a micro-batch: what autograd keeps of F; what the engine does; what it does after I.
  void PrintMemory(Verdicts& verdicts) {
    std::int64_t ordinary = 0;
    {
      const AllocationMeter meter;
      const at::Tensor output = ordinary_.Forward(inputs_[0].detach().requires_grad_(true));
      ordinary = meter.bytes() - static_cast<std::int64_t>(output.nbytes());
    }
    Forward(0);
    const StashBytes forward = stage_.stash_bytes();
    BackwardInput(0);
    const StashBytes input = stage_.stash_bytes();
    stage_.ForgetMicroBatches();
    const auto share = [](std::int64_t part, std::int64_t of) {
      return static_cast<double>(part) / static_cast<double>(of);
    };
    fmt::print(
        "  a micro-batch holds after F {:.2f} MB ({:.2f} MB under autograd), between I and W "
        "{:.2f} "
        "MB: {:.2f} MB of activations and {:.2f} MB of gradients for W; {:.1f}% less in all\n",
        static_cast<double>(forward.total()) / kMega, static_cast<double>(ordinary) / kMega,
        static_cast<double>(input.total()) / kMega, static_cast<double>(input.activations) / kMega,
        static_cast<double>(input.gradients) / kMega,
        100 * (1 - share(input.total(), forward.total())));
    verdicts.AtLeast("share of its activations that I frees",
                     1 - share(input.activations, forward.activations), 1.0 / 3);
  }

 private:
  void Forward(int m) {
    stage_.Forward({.iteration = 0,
                    .micro_batch = m,
                    .input = inputs_[static_cast<std::size_t>(m)],
                    .targets = {},
                    .hook = {}});
  }
  void BackwardInput(int m) {
    stage_.BackwardInput(m, gradients_[static_cast<std::size_t>(m)], {});
  }

  void Ordinary(BackwardTimes& times) {
    ordinary_.ZeroGradients();
    for (std::size_t m = 0; m < kMicroBatches; ++m) {
      const at::Tensor input = inputs_[m].detach().requires_grad_(true);
      const at::Tensor output = ordinary_.Forward(input);
      const double begin = ToMilliseconds(ThreadCpuTime());
      output.backward(gradients_[m]);
      times.ordinary += ToMilliseconds(ThreadCpuTime()) - begin;
    }
  }

  void Whole(BackwardTimes& times) {
    stage_.ZeroGradients();
    for (int m = 0; m < kMicroBatches; ++m) {
      Forward(m);
      const double begin = ToMilliseconds(ThreadCpuTime());
      BackwardInput(m);
      stage_.BackwardWeight(m, {});
      times.whole += ToMilliseconds(ThreadCpuTime()) - begin;
    }
  }

  void Split(BackwardTimes& times) {
    stage_.ZeroGradients();
    for (int m = 0; m < kMicroBatches; ++m) Forward(m);
    const double begin = ToMilliseconds(ThreadCpuTime());
    for (int m = 0; m < kMicroBatches; ++m) BackwardInput(m);
    const double middle = ToMilliseconds(ThreadCpuTime());
    for (int m = 0; m < kMicroBatches; ++m) stage_.BackwardWeight(m, {});
    times.input = middle - begin;
    times.weight = ToMilliseconds(ThreadCpuTime()) - middle;
  }

  int num_rounds_ = 0;
  StageModel stage_;
  OrdinaryBlocks ordinary_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace

void SplitBackward(int tokens, int rounds, Verdicts& verdicts) {
  for (const int hidden : {256, 512, 768}) {
    const ModelOptions options{.num_blocks = kBlocks,
                               .hidden = hidden,
                               .heads = hidden / kHeadWidth,
                               .sequence = kSequence,
                               .vocabulary = 256};
    SplitBench bench(options, tokens);
    bench.Round();  // memory and caches are warm from here on
    std::vector<double> to_ordinary, to_whole;
    std::vector<double> ordinary, whole, input, weight;
    for (int round = 0; round < rounds; ++round) {
      const BackwardTimes times = bench.Round();
      to_ordinary.push_back(times.split() / times.ordinary);
      to_whole.push_back(times.split() / times.whole);
      ordinary.push_back(times.ordinary / kMicroBatches);
      whole.push_back(times.whole / kMicroBatches);
      input.push_back(times.input / kMicroBatches);
      weight.push_back(times.weight / kMicroBatches);
    }
    fmt::print(
        "hidden {}, {} tokens: a micro-batch takes {:.2f} ms ordinary, {:.2f} ms whole, {:.2f} + "
        "{:.2f} ms split\n",
        hidden, tokens, Median(ordinary), Median(whole), Median(input), Median(weight));
    verdicts.AtMost("split / ordinary backward, CPU time", Median(to_ordinary), 1.02);
    verdicts.AtMost("split / whole backward, CPU time", Median(to_whole), 1.02);
    verdicts.AtMost("largest relative difference of the gradients", bench.Difference(), 1e-5);
    bench.PrintMemory(verdicts);
  }
}

}  // namespace recycle
