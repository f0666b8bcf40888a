// A pre-norm transformer block. Internal to nn.
#ifndef RECYCLE_NN_BLOCK_LAYER_H_
#define RECYCLE_NN_BLOCK_LAYER_H_

#include <memory>

#include "recycle/nn/layer.h"
#include "recycle/nn/model_options.h"

namespace recycle {

// Block layer - 1 of the model, as layer number `layer`.
std::unique_ptr<Layer> MakeBlockLayer(const ModelOptions& options, int layer,
                                      const ParameterLookup& parameter);

}  // namespace recycle

#endif  // RECYCLE_NN_BLOCK_LAYER_H_
