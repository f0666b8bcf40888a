#include "recycle/nn/embedding_layer.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/add.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/sum.h>

#include <unordered_map>
#include <vector>

#include "recycle/nn/accumulate.h"

namespace recycle {
namespace {

// Adds each row of grad_ND to the row of the gradient that its token names. Rows of equal tokens
// are summed first, as autograd does, and only the rows that occur are touched.
void AddTokenGradients(const at::Tensor& tokens_BT, const at::Tensor& grad_ND,
                       Parameter& embedding) {
  const std::int64_t width = grad_ND.size(1);
  const auto* tokens = tokens_BT.data_ptr<std::int64_t>();
  const float* grad = grad_ND.data_ptr<float>();
  std::unordered_map<std::int64_t, std::int64_t> slots;
  std::vector<float> sums;
  for (std::int64_t row = 0; row < grad_ND.size(0); ++row) {
    const auto slot = static_cast<std::int64_t>(slots.size());
    const auto [it, is_new] = slots.try_emplace(tokens[row], slot);
    if (is_new) sums.resize(sums.size() + static_cast<std::size_t>(width));
    float* sum = sums.data() + it->second * width;
    for (std::int64_t d = 0; d < width; ++d) sum[d] += grad[row * width + d];
  }
  const auto row_width = static_cast<std::size_t>(width);
  for (const auto& [token, slot] : slots) {
    AddGradient(std::span<const float>(sums.data() + slot * width, row_width),
                static_cast<std::size_t>(token) * row_width, embedding);
  }
}

class EmbeddingLayer : public Layer {
 public:
  explicit EmbeddingLayer(const ParameterLookup& parameter)
      : token_(parameter("wte.weight")), position_(parameter("wpe.weight")) {}

  LayerOutput Forward(const LayerInput& in) const override;

 private:
  class Run : public LayerRun {
   public:
    Run(const EmbeddingLayer& layer, at::Tensor tokens_BT, const Dropout& dropout)
        : layer_(layer), tokens_BT_(std::move(tokens_BT)), dropout_(dropout) {}

    at::Tensor BackwardInput(const at::Tensor& grad) override {
      grad_BTD_ = dropout_.Apply(grad);
      return {};
    }
    void BackwardWeight() override {
      AddTokenGradients(tokens_BT_, grad_BTD_.view({-1, grad_BTD_.size(2)}), layer_.token_);
      AddGradient(at::sum(grad_BTD_, 0), layer_.position_);
    }
    void AppendTo(Stash& stash) const override {
      stash.activations.push_back(tokens_BT_);
      stash.gradients.push_back(grad_BTD_);
    }

   private:
    const EmbeddingLayer& layer_;
    at::Tensor tokens_BT_;  // F to W
    at::Tensor grad_BTD_;   // I to W
    Dropout dropout_;
  };

  Parameter& token_;
  Parameter& position_;
};

LayerOutput EmbeddingLayer::Forward(const LayerInput& in) const {
  const at::Tensor tokens_BT = in.input.contiguous();
  const at::Tensor position_TD = position_.value.narrow(0, 0, tokens_BT.size(1));
  const at::Tensor x_BTD = at::add(at::embedding(token_.value, tokens_BT), position_TD);
  const Dropout dropout = in.dropout.At(0, DropoutSite::kEmbedding);
  return {dropout.Apply(x_BTD), std::make_unique<Run>(*this, tokens_BT, dropout)};
}

}  // namespace

std::unique_ptr<Layer> MakeEmbeddingLayer(const ParameterLookup& parameter) {
  return std::make_unique<EmbeddingLayer>(parameter);
}

}  // namespace recycle
