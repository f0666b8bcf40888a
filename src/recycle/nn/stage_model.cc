#include "recycle/nn/stage_model.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/nn/block_layer.h"
#include "recycle/nn/embedding_layer.h"
#include "recycle/nn/head_layer.h"
#include "recycle/nn/initial_value.h"
#include "recycle/nn/layer.h"

namespace recycle {
namespace {

// Backward passes are by hand: no operator here needs autograd's dispatch.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

void Report(const LayerHook& hook, std::size_t done, std::size_t total) {
  if (hook) hook(static_cast<int>(done), static_cast<int>(total));
}

void CheckTokens(const at::Tensor& tokens_BT, const ModelOptions& options, const char* what) {
  RC_CHECK(tokens_BT.defined() && tokens_BT.dim() == 2 && tokens_BT.scalar_type() == at::kLong)
      << what << " must be int64 [B, T]";
  RC_CHECK(tokens_BT.size(1) >= 1 && tokens_BT.size(1) <= options.sequence)
      << what << " of " << tokens_BT.size(1) << " tokens, at most " << options.sequence;
  const at::Tensor tokens = tokens_BT.contiguous();
  const auto* begin = tokens.data_ptr<std::int64_t>();
  const bool in_range = std::all_of(begin, begin + tokens.numel(), [&](std::int64_t token) {
    return token >= 0 && token < options.vocabulary;
  });
  RC_CHECK(in_range) << what << " outside the vocabulary of " << options.vocabulary;
}

void CheckActivations(const at::Tensor& x_BTD, const ModelOptions& options, const char* what) {
  RC_CHECK(x_BTD.defined() && x_BTD.dim() == 3 && x_BTD.scalar_type() == at::kFloat &&
           x_BTD.is_contiguous())
      << what << " must be contiguous float [B, T, D]";
  RC_CHECK(x_BTD.size(1) <= options.sequence && x_BTD.size(2) == options.hidden)
      << what << " of " << x_BTD.size(1) << " tokens and width " << x_BTD.size(2);
}

}  // namespace

StageModel::StageModel(const ModelOptions& options, int layer_begin, int layer_end)
    : options_(options),
      has_embedding_(layer_begin == 0),
      has_head_(layer_end == options.num_layers()) {
  const Status valid = options.Validate();
  RC_CHECK(valid.ok()) << valid.message();
  const WithoutAutograd guard;
  const bool shares_embedding = options.tied && has_embedding_ != has_head_;
  for (const ParameterSpec& spec : ParameterSpecs(options, layer_begin, layer_end)) {
    at::Tensor value = InitialValue(spec, options.num_blocks, options.seed);
    at::Tensor gradient = at::zeros_like(value);
    parameters_.push_back({spec.name, spec.layer, std::move(value), std::move(gradient),
                           shares_embedding && spec.name == "wte.weight", spec.decay()});
  }
  const ParameterLookup lookup = [this](const std::string& name) -> Parameter& {
    return FindParameter(name);
  };
  for (int layer = layer_begin; layer < layer_end; ++layer) {
    if (layer == 0) {
      layers_.push_back(MakeEmbeddingLayer(lookup));
    } else if (layer + 1 < options.num_layers()) {
      layers_.push_back(MakeBlockLayer(options, layer, lookup));
    } else {
      layers_.push_back(MakeHeadLayer(options, lookup));
    }
  }
}

StageModel::~StageModel() = default;

Parameter& StageModel::FindParameter(const std::string& name) {
  const auto it = std::find_if(parameters_.begin(), parameters_.end(),
                               [&](const Parameter& p) { return p.name == name; });
  RC_CHECK(it != parameters_.end()) << "no parameter " << name << " on this stage";
  return *it;
}

at::Tensor StageModel::Forward(const ForwardInput& in) {
  const int stash = in.stash.value_or(in.micro_batch);
  RC_CHECK(in.evaluate || !in_flight_.contains(stash))
      << "micro-batch " << stash << " is in flight already";
  if (has_embedding_) {
    CheckTokens(in.input, options_, "input");
  } else {
    CheckActivations(in.input, options_, "input");
  }
  if (has_head_) {
    CheckTokens(in.targets, options_, "targets");
  } else {
    RC_CHECK(!in.targets.defined()) << "only the last stage takes targets";
  }
  const WithoutAutograd guard;
  LayerInput layer_input{in.input, in.targets, Dropout()};
  if (!in.evaluate) {
    layer_input.dropout =
        Dropout::ForMicroBatch(options_.dropout, options_.seed, in.iteration, in.micro_batch);
  }
  InFlight batch;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    LayerOutput out = layers_[i]->Forward(layer_input);
    layer_input.input = std::move(out.output);
    if (!in.evaluate) batch.runs.push_back(std::move(out.run));
    Report(in.hook, i + 1, layers_.size());
  }
  if (!in.evaluate) in_flight_.emplace(stash, std::move(batch));
  return layer_input.input;
}

at::Tensor StageModel::BackwardInput(int micro_batch, const at::Tensor& grad_BTD,
                                     const LayerHook& hook) {
  const auto it = in_flight_.find(micro_batch);
  RC_CHECK(it != in_flight_.end() && !it->second.input_done)
      << "I of micro-batch " << micro_batch << " must follow its F, once";
  if (!has_head_) CheckActivations(grad_BTD, options_, "gradient");
  const WithoutAutograd guard;
  InFlight& batch = it->second;
  at::Tensor grad = grad_BTD;
  for (std::size_t done = 1; done <= batch.runs.size(); ++done) {
    grad = batch.runs[batch.runs.size() - done]->BackwardInput(grad);
    Report(hook, done, batch.runs.size());
  }
  batch.input_done = true;
  return grad;
}

// From the last layer to the first: where one stage has both ends of a tied weight, the head's
// product must meet the zeroed accumulator for the sum to be autograd's.
void StageModel::BackwardWeight(int micro_batch, const LayerHook& hook) {
  const auto it = in_flight_.find(micro_batch);
  RC_CHECK(it != in_flight_.end() && it->second.input_done)
      << "W of micro-batch " << micro_batch << " must follow its I, once";
  const WithoutAutograd guard;
  InFlight& batch = it->second;
  const std::size_t total = batch.runs.size();
  for (std::size_t done = 1; done <= total; ++done) {
    batch.runs.back()->BackwardWeight();
    batch.runs.pop_back();
    Report(hook, done, total);
  }
  in_flight_.erase(it);
}

void StageModel::ForgetMicroBatch(int micro_batch) { in_flight_.erase(micro_batch); }

void StageModel::ForgetMicroBatches() { in_flight_.clear(); }

void StageModel::ZeroGradients() {
  const WithoutAutograd guard;
  for (Parameter& parameter : parameters_) parameter.gradient.zero_();
}

StashBytes StageModel::stash_bytes() const {
  Stash stash;
  for (const auto& [key, batch] : in_flight_) {
    for (const auto& run : batch.runs) run->AppendTo(stash);
  }
  std::unordered_set<const c10::StorageImpl*> seen;
  const auto sum = [&seen](const std::vector<at::Tensor>& tensors) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.defined()) continue;
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      if (seen.insert(storage).second) bytes += static_cast<std::int64_t>(storage->nbytes());
    }
    return bytes;
  };
  StashBytes bytes;
  bytes.activations = sum(stash.activations);
  bytes.gradients = sum(stash.gradients);
  return bytes;
}

}  // namespace recycle
