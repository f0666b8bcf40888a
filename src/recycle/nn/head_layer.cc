#include "recycle/nn/head_layer.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/nll_loss_forward.h>

#include "recycle/base/check.h"

namespace recycle {
namespace {

constexpr std::int64_t kNoTarget = -100;  // the kernel's mark for a token without loss; not used

// Final norm, logits over the vocabulary, and the sum of the token losses.
class HeadLayer : public Layer {
 public:
  HeadLayer(const ModelOptions& options, const ParameterLookup& parameter)
      : norm_(parameter("ln_f.weight"), parameter("ln_f.bias")),
        head_(parameter(options.tied ? "wte.weight" : "head.weight"), nullptr) {}

  LayerOutput Forward(const LayerInput& in) const override;

 private:
  class Run : public LayerRun {
   public:
    explicit Run(const HeadLayer& layer) : layer_(layer) {}
    at::Tensor Forward(const at::Tensor& x_BTD, const at::Tensor& targets_BT);
    at::Tensor BackwardInput(const at::Tensor& grad) override;
    void BackwardWeight() override {
      layer_.head_.BackwardWeight(head_);
      layer_.norm_.BackwardWeight(norm_);
    }
    void AppendTo(Stash& stash) const override {
      norm_.AppendTo(stash);
      head_.AppendTo(stash);
      stash.activations.insert(stash.activations.end(), {targets_N_, log_probabilities_NV_});
    }

   private:
    const HeadLayer& layer_;
    std::vector<std::int64_t> input_sizes_;
    Norm::Run norm_;
    Linear::Run head_;
    at::Tensor targets_N_;             // F to I
    at::Tensor log_probabilities_NV_;  // F to I; then its memory holds the gradient of the logits
  };

  const Norm norm_;
  const Linear head_;
};

at::Tensor HeadLayer::Run::Forward(const at::Tensor& x_BTD, const at::Tensor& targets_BT) {
  input_sizes_ = x_BTD.sizes().vec();
  targets_N_ = targets_BT.reshape({-1}).contiguous();
  const at::Tensor normed_ND = layer_.norm_.Forward(x_BTD.view({-1, x_BTD.size(2)}), norm_);
  log_probabilities_NV_ = at::_log_softmax(layer_.head_.Forward(normed_ND, head_), 1, false);
  return std::get<0>(at::nll_loss_forward(log_probabilities_NV_, targets_N_, /*weight=*/{},
                                          at::Reduction::Sum, kNoTarget));
}

// The gradient of the summed loss by the logits is softmax - onehot(target).
at::Tensor HeadLayer::Run::BackwardInput(const at::Tensor& grad) {
  RC_CHECK(!grad.defined()) << "the last stage starts the backward pass from 1";
  const at::Tensor grad_logits = log_probabilities_NV_.exp_();
  const std::int64_t vocabulary = grad_logits.size(1);
  float* rows = grad_logits.data_ptr<float>();
  const auto* targets = targets_N_.data_ptr<std::int64_t>();
  for (std::int64_t n = 0; n < grad_logits.size(0); ++n) rows[n * vocabulary + targets[n]] -= 1.0F;
  log_probabilities_NV_.reset();
  targets_N_.reset();
  return layer_.norm_.BackwardInput(layer_.head_.BackwardInput(grad_logits, head_), norm_)
      .view(input_sizes_);
}

LayerOutput HeadLayer::Forward(const LayerInput& in) const {
  auto run = std::make_unique<Run>(*this);
  at::Tensor loss = run->Forward(in.input, in.targets);
  return {std::move(loss), std::move(run)};
}

}  // namespace

std::unique_ptr<Layer> MakeHeadLayer(const ModelOptions& options,
                                     const ParameterLookup& parameter) {
  return std::make_unique<HeadLayer>(options, parameter);
}

}  // namespace recycle
