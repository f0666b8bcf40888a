#include "recycle/nn/operators.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sum.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "recycle/nn/accumulate.h"

namespace recycle {
namespace {

constexpr double kNormEpsilon = 1e-5;

// Minus infinity above the diagonal. One for all blocks: a long sequence's is as large as a layer.
at::Tensor CausalMask(int tokens) {
  static std::mutex mutex;
  static auto* const masks = new std::map<int, at::Tensor>();
  const std::lock_guard lock(mutex);
  at::Tensor& mask_TT = (*masks)[tokens];
  if (!mask_TT.defined()) {
    mask_TT = at::full({tokens, tokens}, -std::numeric_limits<float>::infinity()).triu_(1);
  }
  return mask_TT;
}

}  // namespace

void Linear::Run::AppendTo(Stash& stash) const {
  stash.activations.push_back(x);
  stash.gradients.push_back(grad);
}

at::Tensor Linear::Forward(const at::Tensor& x, Run& run) const {
  run.x = x;
  if (bias_ == nullptr) return at::mm(x, weight_->value.t());
  return at::addmm(bias_->value, x, weight_->value.t());
}

at::Tensor Linear::BackwardInput(const at::Tensor& grad, Run& run) const {
  run.grad = grad;
  return at::mm(grad, weight_->value);
}

void Linear::BackwardWeight(Run& run) const {
  if (weight_->sums == nullptr) {
    weight_->gradient.addmm_(run.grad.t(), run.x);
  } else {
    AddGradient(at::mm(run.grad.t(), run.x), *weight_);
  }
  if (bias_ != nullptr) AddGradient(at::sum(run.grad, 0), *bias_);
  run = {};
}

void Norm::Run::AppendTo(Stash& stash) const {
  stash.activations.insert(stash.activations.end(), {x, mean, rstd});
  stash.gradients.insert(stash.gradients.end(), {grad_weight, grad_bias});
}

at::Tensor Norm::Forward(const at::Tensor& x, Run& run) const {
  run.x = x;
  at::Tensor y;
  std::tie(y, run.mean, run.rstd) =
      at::native_layer_norm(x, {x.size(-1)}, weight_->value, bias_->value, kNormEpsilon);
  return y;
}

at::Tensor Norm::BackwardInput(const at::Tensor& grad, Run& run) const {
  at::Tensor grad_x;
  std::tie(grad_x, run.grad_weight, run.grad_bias) =
      at::native_layer_norm_backward(grad, run.x, {run.x.size(-1)}, run.mean, run.rstd,
                                     weight_->value, bias_->value, {true, true, true});
  run.x = run.mean = run.rstd = at::Tensor();
  return grad_x;
}

void Norm::BackwardWeight(Run& run) const {
  AddGradient(run.grad_weight, *weight_);
  AddGradient(run.grad_bias, *bias_);
  run = {};
}

void CausalAttention::Run::AppendTo(Stash& stash) const {
  stash.activations.insert(stash.activations.end(), {qkv, probabilities});
}

CausalAttention::CausalAttention(int heads, int max_sequence, int hidden)
    : heads_(heads),
      scale_(1.0 / std::sqrt(static_cast<double>(hidden) / heads)),
      mask_TT_(CausalMask(max_sequence)) {}

at::Tensor CausalAttention::Forward(const at::Tensor& qkv_N3D, std::int64_t batch,
                                    const Dropout& dropout, Run& run) const {
  const std::int64_t rows = qkv_N3D.size(0);
  const std::int64_t tokens = rows / batch;
  const std::int64_t hidden = qkv_N3D.size(1) / 3;
  run.dropout = dropout;
  // One copy puts the heads apart: [3, B*heads, T, head width].
  run.qkv = qkv_N3D.view({batch, tokens, 3, heads_, hidden / heads_})
                .permute({2, 0, 3, 1, 4})
                .contiguous()
                .view({3, batch * heads_, tokens, hidden / heads_});
  const at::Tensor mask = mask_TT_.narrow(0, 0, tokens).narrow(1, 0, tokens);
  const at::Tensor scores =
      at::baddbmm(mask, run.qkv.select(0, 0), run.qkv.select(0, 1).transpose(1, 2), 1, scale_);
  run.probabilities = at::_softmax(scores, -1, false);
  return at::bmm(dropout.Apply(run.probabilities), run.qkv.select(0, 2))
      .view({batch, heads_, tokens, hidden / heads_})
      .transpose(1, 2)
      .reshape({rows, hidden});
}

at::Tensor CausalAttention::BackwardInput(const at::Tensor& grad_ND, Run& run) const {
  const std::int64_t tokens = run.qkv.size(2);
  const std::int64_t width = run.qkv.size(3);
  const std::int64_t rows = grad_ND.size(0);
  const std::int64_t batch = rows / tokens;
  const at::Tensor grad = grad_ND.view({batch, tokens, heads_, width})
                              .transpose(1, 2)
                              .reshape({batch * heads_, tokens, width});
  const at::Tensor query = run.qkv.select(0, 0);
  const at::Tensor key = run.qkv.select(0, 1);
  const at::Tensor value = run.qkv.select(0, 2);
  const at::Tensor grad_value = at::bmm(run.dropout.Apply(run.probabilities).transpose(1, 2), grad);
  const at::Tensor grad_scores = at::_softmax_backward_data(
      run.dropout.Apply(at::bmm(grad, value.transpose(1, 2))), run.probabilities, -1, at::kFloat);
  const at::Tensor grad_query = at::bmm(grad_scores, key).mul_(scale_);
  // In this orientation because autograd has it so: a matrix product and its transpose differ in
  // bits.
  const at::Tensor grad_key = at::bmm(query.transpose(1, 2), grad_scores).mul_(scale_);
  run = {};

  at::Tensor grad_qkv = at::empty({rows, 3 * heads_ * width});
  const at::Tensor parts =
      grad_qkv.view({batch, tokens, 3, heads_, width}).permute({2, 0, 3, 1, 4});
  parts.select(0, 0).copy_(grad_query.view({batch, heads_, tokens, width}));
  parts.select(0, 1).copy_(grad_key.view({batch, heads_, width, tokens}).transpose(2, 3));
  parts.select(0, 2).copy_(grad_value.view({batch, heads_, tokens, width}));
  return grad_qkv;
}

}  // namespace recycle
