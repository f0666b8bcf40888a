// Costs computed from a model's shape: FLOPs and bytes per layer, the split of layers over stages,
// and a CostProfile for the planner until measured costs exist. No tensor is involved.
#ifndef RECYCLE_PLAN_MODEL_SHAPE_H_
#define RECYCLE_PLAN_MODEL_SHAPE_H_

#include <cstdint>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/costs.h"

namespace recycle {

// A GPT-2-style decoder. Layer 0 is the embedding, layers 1..num_blocks are transformer blocks,
// layer num_blocks + 1 is the final norm with the head and the loss.
struct ModelShape {
  int num_blocks = 0;
  int hidden = 0;
  int heads = 0;
  int sequence = 0;
  int vocabulary = 0;
  bool tied = false;  // the head's weight is the token embedding
  int micro_batch_size = 1;

  int num_layers() const { return num_blocks + 2; }
};

// Costs of one layer for one micro-batch.
struct LayerCosts {
  double forward_flops = 0;
  double backward_input_flops = 0;
  double backward_weight_flops = 0;
  double activation_bytes = 0;  // held from F to I
  double deferred_bytes = 0;    // held from I to W
  std::int64_t parameters = 0;
};

std::vector<LayerCosts> ComputeLayerCosts(const ModelShape& shape);

// Layers [begin, end) of the model, by index as above.
struct LayerRange {
  int begin = 0;
  int end = 0;
  bool operator==(const LayerRange&) const = default;
};

// Splits the layers into `num_stages` consecutive non-empty ranges so that the most expensive stage
// (F + I + W) costs least; every layer is in exactly one range. Error: kInvalidArgument if there
// are more stages than blocks.
StatusOr<std::vector<LayerRange>> SplitLayers(const ModelShape& shape, int num_stages);

// Durations in ms at `flops_per_second`; memory in bytes; capacity absent.
CostProfile CostsFromShape(const ModelShape& shape, const std::vector<LayerRange>& stages,
                           double flops_per_second);

}  // namespace recycle

#endif  // RECYCLE_PLAN_MODEL_SHAPE_H_
