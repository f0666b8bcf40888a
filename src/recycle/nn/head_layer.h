// The last layer: final norm, head and cross-entropy. Internal to nn.
#ifndef RECYCLE_NN_HEAD_LAYER_H_
#define RECYCLE_NN_HEAD_LAYER_H_

#include <memory>

#include "recycle/nn/layer.h"
#include "recycle/nn/model_options.h"

namespace recycle {

std::unique_ptr<Layer> MakeHeadLayer(const ModelOptions& options, const ParameterLookup& parameter);

}  // namespace recycle

#endif  // RECYCLE_NN_HEAD_LAYER_H_
