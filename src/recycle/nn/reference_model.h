// Test only: the same model as one plain autograd graph, written from the formulas with libtorch's
// differentiable operators. The oracle for stage_model.h.
#ifndef RECYCLE_NN_REFERENCE_MODEL_H_
#define RECYCLE_NN_REFERENCE_MODEL_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "recycle/nn/model_options.h"

namespace recycle {

struct ReferenceResult {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;  // by canonical name
};

// Sum of the token losses and its gradients by all `values` (every canonical name).
ReferenceResult ReferenceGradients(const ModelOptions& options,
                                   const std::map<std::string, at::Tensor>& values, int iteration,
                                   int micro_batch, const at::Tensor& tokens_BT,
                                   const at::Tensor& targets_BT);

}  // namespace recycle

#endif  // RECYCLE_NN_REFERENCE_MODEL_H_
