// Layer 0: the sum of token and position embeddings. Internal to nn.
#ifndef RECYCLE_NN_EMBEDDING_LAYER_H_
#define RECYCLE_NN_EMBEDDING_LAYER_H_

#include <memory>

#include "recycle/nn/layer.h"

namespace recycle {

std::unique_ptr<Layer> MakeEmbeddingLayer(const ParameterLookup& parameter);

}  // namespace recycle

#endif  // RECYCLE_NN_EMBEDDING_LAYER_H_
