// A layer of the model, the unit of state and of the split over stages, and what one micro-batch
// leaves in it. Internal to nn: the face of the module is stage_model.h.
//
// Layer::Forward returns the output and a LayerRun; the run takes the micro-batch back through the
// layer: BackwardInput once, then BackwardWeight once. It refers to its layer, which must outlive
// it.
#ifndef RECYCLE_NN_LAYER_H_
#define RECYCLE_NN_LAYER_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "recycle/nn/dropout.h"
#include "recycle/nn/operators.h"
#include "recycle/nn/parameter.h"

namespace recycle {

class LayerRun {
 public:
  virtual ~LayerRun() = default;
  // I: from the gradient of the output to that of the input. The head takes an undefined gradient
  // (it starts from 1), the embedding returns one.
  virtual at::Tensor BackwardInput(const at::Tensor& grad) = 0;
  // W: adds to the accumulators.
  virtual void BackwardWeight() = 0;
  // Appends the tensors held, undefined ones among them.
  virtual void AppendTo(Stash& stash) const = 0;
};

struct LayerInput {
  at::Tensor input;    // tokens_BT or x_BTD
  at::Tensor targets;  // targets_BT, for the head
  Dropout dropout;     // of the micro-batch
};

struct LayerOutput {
  at::Tensor output;
  std::unique_ptr<LayerRun> run;
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual LayerOutput Forward(const LayerInput& in) const = 0;
};

// Finds a parameter of the stage; it must exist.
using ParameterLookup = std::function<Parameter&(const std::string& name)>;

}  // namespace recycle

#endif  // RECYCLE_NN_LAYER_H_
