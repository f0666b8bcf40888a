#include "recycle/nn/block_layer.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <fmt/format.h>

namespace recycle {
namespace {

constexpr const char* kGelu = "tanh";  // GPT-2's approximation

// x2 = x + attention(norm(x)); y = x2 + mlp(norm(x2)).
class BlockLayer : public Layer {
 public:
  BlockLayer(const ModelOptions& options, int layer, const ParameterLookup& parameter);
  LayerOutput Forward(const LayerInput& in) const override;

 private:
  class Run;

  const int layer_;
  const Norm norm_1_, norm_2_;
  const Linear qkv_, attention_out_, fc_, mlp_out_;
  const CausalAttention attention_;
};

class BlockLayer::Run : public LayerRun {
 public:
  Run(const BlockLayer& layer, const Dropout& batch)
      : layer_(layer),
        attention_drop_(batch.At(layer.layer_, DropoutSite::kAttention)),
        attention_out_drop_(batch.At(layer.layer_, DropoutSite::kAttentionOutput)),
        mlp_out_drop_(batch.At(layer.layer_, DropoutSite::kMlpOutput)) {}

  at::Tensor Forward(const at::Tensor& x_BTD);
  at::Tensor BackwardInput(const at::Tensor& grad) override;
  void BackwardWeight() override;
  void AppendTo(Stash& stash) const override;

 private:
  const BlockLayer& layer_;
  const Dropout attention_drop_, attention_out_drop_, mlp_out_drop_;
  Norm::Run norm_1_, norm_2_;
  Linear::Run qkv_, attention_out_, fc_, mlp_out_;
  CausalAttention::Run attention_;
  at::Tensor before_gelu_;  // F to I
};

at::Tensor BlockLayer::Run::Forward(const at::Tensor& x_BTD) {
  const at::Tensor x_ND = x_BTD.view({-1, x_BTD.size(2)});
  const at::Tensor qkv_N3D = layer_.qkv_.Forward(layer_.norm_1_.Forward(x_ND, norm_1_), qkv_);
  const at::Tensor mixed_ND =
      layer_.attention_.Forward(qkv_N3D, x_BTD.size(0), attention_drop_, attention_);
  const at::Tensor x2_ND =
      attention_out_drop_.Apply(layer_.attention_out_.Forward(mixed_ND, attention_out_)).add_(x_ND);
  before_gelu_ = layer_.fc_.Forward(layer_.norm_2_.Forward(x2_ND, norm_2_), fc_);
  const at::Tensor y_ND =
      mlp_out_drop_.Apply(layer_.mlp_out_.Forward(at::gelu(before_gelu_, kGelu), mlp_out_))
          .add_(x2_ND);
  return y_ND.view(x_BTD.sizes());
}

at::Tensor BlockLayer::Run::BackwardInput(const at::Tensor& grad) {
  const at::Tensor grad_y = grad.view({-1, grad.size(2)});
  const at::Tensor grad_gelu = layer_.mlp_out_.BackwardInput(mlp_out_drop_.Apply(grad_y), mlp_out_);
  const at::Tensor grad_fc = at::gelu_backward(grad_gelu, before_gelu_, kGelu);
  before_gelu_.reset();
  const at::Tensor grad_x2 =
      layer_.norm_2_.BackwardInput(layer_.fc_.BackwardInput(grad_fc, fc_), norm_2_).add_(grad_y);
  const at::Tensor grad_mixed =
      layer_.attention_out_.BackwardInput(attention_out_drop_.Apply(grad_x2), attention_out_);
  const at::Tensor grad_qkv = layer_.attention_.BackwardInput(grad_mixed, attention_);
  const at::Tensor grad_x =
      layer_.norm_1_.BackwardInput(layer_.qkv_.BackwardInput(grad_qkv, qkv_), norm_1_)
          .add_(grad_x2);
  return grad_x.view(grad.sizes());
}

void BlockLayer::Run::BackwardWeight() {
  layer_.mlp_out_.BackwardWeight(mlp_out_);
  layer_.fc_.BackwardWeight(fc_);
  layer_.norm_2_.BackwardWeight(norm_2_);
  layer_.attention_out_.BackwardWeight(attention_out_);
  layer_.qkv_.BackwardWeight(qkv_);
  layer_.norm_1_.BackwardWeight(norm_1_);
}

void BlockLayer::Run::AppendTo(Stash& stash) const {
  for (const Norm::Run* run : {&norm_1_, &norm_2_}) run->AppendTo(stash);
  for (const Linear::Run* run : {&qkv_, &attention_out_, &fc_, &mlp_out_}) run->AppendTo(stash);
  attention_.AppendTo(stash);
  stash.activations.push_back(before_gelu_);
}

Linear MakeLinear(const std::string& name, const ParameterLookup& parameter) {
  return {parameter(name + ".weight"), &parameter(name + ".bias")};
}

Norm MakeNorm(const std::string& name, const ParameterLookup& parameter) {
  return {parameter(name + ".weight"), parameter(name + ".bias")};
}

BlockLayer::BlockLayer(const ModelOptions& options, int layer, const ParameterLookup& parameter)
    : layer_(layer),
      norm_1_(MakeNorm(fmt::format("h.{}.ln_1", layer - 1), parameter)),
      norm_2_(MakeNorm(fmt::format("h.{}.ln_2", layer - 1), parameter)),
      qkv_(MakeLinear(fmt::format("h.{}.attn.qkv", layer - 1), parameter)),
      attention_out_(MakeLinear(fmt::format("h.{}.attn.proj", layer - 1), parameter)),
      fc_(MakeLinear(fmt::format("h.{}.mlp.fc", layer - 1), parameter)),
      mlp_out_(MakeLinear(fmt::format("h.{}.mlp.proj", layer - 1), parameter)),
      attention_(options.heads, options.sequence, options.hidden) {}

LayerOutput BlockLayer::Forward(const LayerInput& in) const {
  auto run = std::make_unique<Run>(*this, in.dropout);
  at::Tensor y_BTD = run->Forward(in.input);
  return {std::move(y_BTD), std::move(run)};
}

}  // namespace

std::unique_ptr<Layer> MakeBlockLayer(const ModelOptions& options, int layer,
                                      const ParameterLookup& parameter) {
  return std::make_unique<BlockLayer>(options, layer, parameter);
}

}  // namespace recycle
