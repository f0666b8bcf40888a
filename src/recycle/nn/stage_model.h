// The layers [begin, end) of one pipeline stage, with the backward pass split in two (ReCycle
// section 4.2; "Zero Bubble Pipeline Parallelism" section 2): I propagates the gradient to the
// stage's input, W adds to the gradient accumulators of the parameters, and W may run at any later
// time.
//
// * W is the only thing that touches an accumulator, for every parameter: matrices, biases, norms,
//   embeddings. Sums depend on the order of the W alone, never on that of F and I.
// * One micro-batch into zeroed accumulators gives bit for bit the gradients of ordinary autograd,
//   and results do not depend on how the layers are spread over stages.
// * Between F and I a micro-batch holds what I needs; I frees all that W does not need.
// * Initial values are a function of (seed, name), dropout masks of (seed, iteration, micro-batch,
//   layer, operator, element): neither depends on the layout.
//
//   StageModel stage(options, 0, 3);
//   at::Tensor x_BTD = stage.Forward({.iteration = 1, .micro_batch = 5, .input = tokens_BT});
//   ... send x_BTD on, receive its gradient ...
//   stage.BackwardInput(5, grad_BTD, {});
//   stage.BackwardWeight(5, {});
//
// Not thread-safe. Shapes: B samples, T tokens each, D hidden width. Failures here are bugs of the
// caller (RC_CHECK).
#ifndef RECYCLE_NN_STAGE_MODEL_H_
#define RECYCLE_NN_STAGE_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "recycle/nn/model_options.h"
#include "recycle/nn/parameter.h"

namespace recycle {

class Layer;
class LayerRun;

// Called after each layer of an action, in the order of execution: `layers_done` counts from 1.
// An empty hook is allowed.
using LayerHook = std::function<void(int layers_done, int layers_total)>;

struct ForwardInput {
  int iteration = 0;    // keys the dropout
  int micro_batch = 0;  // global index k*M + m: keys the dropout, and the stash
  at::Tensor input;     // tokens_BT (int64) on the first stage, activations x_BTD (float) elsewhere
  at::Tensor targets;   // targets_BT (int64) on the last stage, undefined elsewhere
  bool evaluate = false;  // no dropout, and nothing is kept for a backward pass
  // Keys the stash instead of `micro_batch`, for a second iteration of it beside the first.
  std::optional<int> stash = std::nullopt;
  LayerHook hook;
};

// Held for micro-batches in flight.
struct StashBytes {
  std::int64_t activations = 0;  // of F: what I still needs, or after it W
  std::int64_t gradients = 0;    // made by I for W
  std::int64_t total() const { return activations + gradients; }
};

class StageModel {
 public:
  // Layers as numbered in model_options.h; 0 <= layer_begin < layer_end <= num_layers(). `options`
  // must be valid.
  StageModel(const ModelOptions& options, int layer_begin, int layer_end);
  ~StageModel();
  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  // F. Returns activations x_BTD, or on the last stage the SUM of the token losses (0-dim). B is
  // free, T at most options.sequence. The micro-batch must not be in flight.
  at::Tensor Forward(const ForwardInput& in);

  // I. `grad_BTD` is the loss gradient of Forward's result; undefined on the last stage, which
  // starts from 1. Returns the gradient of Forward's input; undefined on the first stage. F must
  // have run.
  at::Tensor BackwardInput(int micro_batch, const at::Tensor& grad_BTD, const LayerHook& hook);

  // W. Adds the micro-batch's gradients to the accumulators and drops its stash. I must have run.
  void BackwardWeight(int micro_batch, const LayerHook& hook);

  // Drops what is kept of a micro-batch between its F and W, whatever its state; the accumulators
  // stay. Nothing if it is not in flight.
  void ForgetMicroBatch(int micro_batch);
  // The same for all of them.
  void ForgetMicroBatches();
  void ZeroGradients();

  // A storage that several tensors share counts once.
  StashBytes stash_bytes() const;

  // In canonical order. The vector's length never changes.
  std::vector<Parameter>& parameters() { return parameters_; }

 private:
  // A micro-batch between F and W: one run per layer, in layer order.
  struct InFlight {
    bool input_done = false;
    std::vector<std::unique_ptr<LayerRun>> runs;
  };

  Parameter& FindParameter(const std::string& name);

  const ModelOptions options_;
  const bool has_embedding_;
  const bool has_head_;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unordered_map<int, InFlight> in_flight_;
};

}  // namespace recycle

#endif  // RECYCLE_NN_STAGE_MODEL_H_
