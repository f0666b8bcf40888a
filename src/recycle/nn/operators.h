// The operators of a transformer, each with its backward pass by hand and split: BackwardInput (I)
// returns the input's gradient and keeps what BackwardWeight (W) will add to the accumulators.
//
// An operator is immutable; what one micro-batch leaves behind is in its Run. Rows are tokens: N =
// B*T rows; tensors are float and contiguous. Each step uses the kernel that autograd would use, on
// the same operands, so that gradients agree bit for bit.
#ifndef RECYCLE_NN_OPERATORS_H_
#define RECYCLE_NN_OPERATORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "recycle/nn/dropout.h"
#include "recycle/nn/parameter.h"

namespace recycle {

// What a micro-batch holds.
struct Stash {
  std::vector<at::Tensor> activations;  // made by F, or given to it
  std::vector<at::Tensor> gradients;    // made by I for W
};

// y = x W^T + b, W of [out, in].
class Linear {
 public:
  struct Run {
    at::Tensor x;     // F to W
    at::Tensor grad;  // of y, I to W
    void AppendTo(Stash& stash) const;
  };
  // `bias` may be null.
  Linear(Parameter& weight, Parameter* bias) : weight_(&weight), bias_(bias) {}
  at::Tensor Forward(const at::Tensor& x, Run& run) const;
  at::Tensor BackwardInput(const at::Tensor& grad, Run& run) const;
  void BackwardWeight(Run& run) const;

 private:
  Parameter* weight_;
  Parameter* bias_;
};

// Layer norm over the last dimension. One pass over x and the gradient yields the input's gradient
// and the micro-batch's two parameter gradients, so I makes all three, frees x, and holds the two
// vectors until W adds them: a separate pass in W would cost the time again and 2D floats per
// token.
class Norm {
 public:
  struct Run {
    at::Tensor x, mean, rstd;           // F to I
    at::Tensor grad_weight, grad_bias;  // I to W
    void AppendTo(Stash& stash) const;
  };
  Norm(Parameter& weight, Parameter& bias) : weight_(&weight), bias_(&bias) {}
  at::Tensor Forward(const at::Tensor& x, Run& run) const;
  at::Tensor BackwardInput(const at::Tensor& grad, Run& run) const;
  void BackwardWeight(Run& run) const;

 private:
  Parameter* weight_;
  Parameter* bias_;
};

// Causal self-attention between the two linears that surround it; no parameters.
class CausalAttention {
 public:
  struct Run {
    at::Tensor qkv;            // [3, B*heads, T, head width], F to I
    at::Tensor probabilities;  // [B*heads, T, T] before dropout, F to I
    Dropout dropout;
    void AppendTo(Stash& stash) const;
  };
  CausalAttention(int heads, int max_sequence, int hidden);
  // qkv_N3D holds queries, keys and values side by side; N = batch * T. Returns [N, D].
  at::Tensor Forward(const at::Tensor& qkv_N3D, std::int64_t batch, const Dropout& dropout,
                     Run& run) const;
  // Returns the gradient of qkv_N3D and frees the run.
  at::Tensor BackwardInput(const at::Tensor& grad_ND, Run& run) const;

 private:
  int heads_;
  double scale_;
  at::Tensor mask_TT_;  // 0 on and below the diagonal, minus infinity above
};

}  // namespace recycle

#endif  // RECYCLE_NN_OPERATORS_H_
