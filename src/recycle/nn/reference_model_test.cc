#include "recycle/nn/reference_model.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "recycle/nn/dropout.h"

namespace recycle {
namespace {

class Graph {
 public:
  Graph(const ModelOptions& options, const std::map<std::string, at::Tensor>& values,
        const Dropout& dropout)
      : options_(options), dropout_(dropout) {
    for (const auto& [name, value] : values) {
      parameters_[name] = value.detach().clone().requires_grad_(true);
    }
  }

  at::Tensor Loss(const at::Tensor& tokens_BT, const at::Tensor& targets_BT) const {
    at::Tensor x = at::embedding(P("wte.weight"), tokens_BT)
                       .add(P("wpe.weight").narrow(0, 0, tokens_BT.size(1)));
    x = Drop(x, 0, DropoutSite::kEmbedding);
    for (int layer = 1; layer <= options_.num_blocks; ++layer) x = Block(x, layer);
    const at::Tensor head = P(options_.tied ? "wte.weight" : "head.weight");
    const at::Tensor logits = at::linear(Norm(x, "ln_f"), head);
    return at::cross_entropy_loss(logits.flatten(0, 1), targets_BT.flatten(), {},
                                  at::Reduction::Sum);
  }

  std::map<std::string, at::Tensor> Gradients() const {
    std::map<std::string, at::Tensor> gradients;
    for (const auto& [name, parameter] : parameters_) gradients[name] = parameter.grad();
    return gradients;
  }

 private:
  const at::Tensor& P(const std::string& name) const { return parameters_.at(name); }

  at::Tensor Linear(const at::Tensor& x, const std::string& name) const {
    return at::linear(x, P(name + ".weight"), P(name + ".bias"));
  }

  at::Tensor Norm(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {x.size(-1)}, P(name + ".weight"), P(name + ".bias"), 1e-5);
  }

  // Multiplies by the mask, which autograd sees as a constant.
  at::Tensor Drop(const at::Tensor& x, int layer, DropoutSite site) const {
    return x.mul(dropout_.At(layer, site).Apply(at::ones_like(x.detach().contiguous())));
  }

  at::Tensor Attention(const at::Tensor& qkv, int layer) const {
    const std::int64_t batch = qkv.size(0);
    const std::int64_t tokens = qkv.size(1);
    const std::int64_t width = options_.hidden / options_.heads;
    const auto heads = [&](const at::Tensor& part) {
      return part.reshape({batch, tokens, options_.heads, width})
          .transpose(1, 2)
          .reshape({batch * options_.heads, tokens, width});
    };
    const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
    const at::Tensor future =
        at::full({tokens, tokens}, -std::numeric_limits<float>::infinity()).triu(1);
    const at::Tensor scores = at::baddbmm(future, heads(parts[0]), heads(parts[1]).transpose(1, 2),
                                          1, 1.0 / std::sqrt(static_cast<double>(width)));
    const at::Tensor probabilities = Drop(at::softmax(scores, -1), layer, DropoutSite::kAttention);
    return at::bmm(probabilities, heads(parts[2]))
        .view({batch, options_.heads, tokens, width})
        .transpose(1, 2)
        .reshape({batch, tokens, options_.hidden});
  }

  at::Tensor Block(const at::Tensor& x, int layer) const {
    const std::string h = fmt::format("h.{}.", layer - 1);
    const at::Tensor qkv = Linear(Norm(x, h + "ln_1"), h + "attn.qkv");
    const at::Tensor x2 = x.add(
        Drop(Linear(Attention(qkv, layer), h + "attn.proj"), layer, DropoutSite::kAttentionOutput));
    const at::Tensor gelu = at::gelu(Linear(Norm(x2, h + "ln_2"), h + "mlp.fc"), "tanh");
    return x2.add(Drop(Linear(gelu, h + "mlp.proj"), layer, DropoutSite::kMlpOutput));
  }

  const ModelOptions& options_;
  Dropout dropout_;
  std::map<std::string, at::Tensor> parameters_;
};

}  // namespace

ReferenceResult ReferenceGradients(const ModelOptions& options,
                                   const std::map<std::string, at::Tensor>& values, int iteration,
                                   int micro_batch, const at::Tensor& tokens_BT,
                                   const at::Tensor& targets_BT) {
  const Graph graph(options, values,
                    Dropout::ForMicroBatch(options.dropout, options.seed, iteration, micro_batch));
  const at::Tensor loss = graph.Loss(tokens_BT, targets_BT);
  loss.backward();
  return {loss.detach(), graph.Gradients()};
}

}  // namespace recycle
