#include "recycle/simulator/memory_model.h"

#include <algorithm>

namespace recycle {
namespace {

constexpr double kStateBytes = 18;       // per parameter
constexpr double kActivationBytes = 34;  // per token, unit of width, and layer
constexpr double kUsableShare = 0.92;

double StateBytes(const ModelSpec& model, const ModelLayout& layout) {
  return kStateBytes * model.parameters / layout.parallel.pipeline / layout.parallel.tensor;
}

}  // namespace

double ActivationBytes(const ModelSpec& model, const ModelLayout& layout) {
  const double layers =
      static_cast<double>(model.layers) / layout.parallel.pipeline / layout.parallel.tensor;
  return kActivationBytes * layout.sequence * layout.micro_batch_size * model.hidden * layers;
}

double UsableBytes(const DeviceSpec& device) { return kUsableShare * device.memory_gb * 1e9; }

double BambooBytes(const ModelSpec& model, const ModelLayout& layout) {
  const int in_flight = 2 * layout.parallel.pipeline - 1;
  return 2 * StateBytes(model, layout) + in_flight * ActivationBytes(model, layout);
}

double MicroBatchesThatFit(const ModelSpec& model, const DeviceSpec& device,
                           const ModelLayout& layout) {
  const double free = UsableBytes(device) - StateBytes(model, layout);
  return std::max(0.0, free / ActivationBytes(model, layout));
}

}  // namespace recycle
