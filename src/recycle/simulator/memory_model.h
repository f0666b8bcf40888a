// Does it fit? Bytes per GPU of training a model under a layout: 18 per parameter (2 weights, 4
// master copy, 8 Adam, 4 gradient) and 34 * sequence * micro-batch * hidden per layer for each
// micro-batch in flight (Korthikanti et al., "Reducing Activation Recomputation", 2022), against
// 92% of the device's memory.
//
// 1F1B holds PP micro-batches at stage 0. Bamboo holds two stages' parameters and 2 * PP - 1
// micro-batches, its own and its successor's. Pure.
#ifndef RECYCLE_SIMULATOR_MEMORY_MODEL_H_
#define RECYCLE_SIMULATOR_MEMORY_MODEL_H_

#include "recycle/simulator/model_table.h"

namespace recycle {

// Of one micro-batch at one stage, per GPU.
double ActivationBytes(const ModelSpec& model, const ModelLayout& layout);
// Usable bytes of a GPU.
double UsableBytes(const DeviceSpec& device);
// What Bamboo needs per GPU.
double BambooBytes(const ModelSpec& model, const ModelLayout& layout);
// How many micro-batches fit beside the state of one stage; below 1 (even 0) if not even one does.
double MicroBatchesThatFit(const ModelSpec& model, const DeviceSpec& device,
                           const ModelLayout& layout);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_MEMORY_MODEL_H_
