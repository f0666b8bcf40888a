// Models and devices by name, and the costs that follow from a model's shape on a device.
//
// Figures of devices are data sheets' but for the share of the peak that a stage reaches, which is
// ASSUMED, as is everything about how costs follow. Parameters are spread evenly over the stages.
//
//   RC_ASSIGN_OR_RETURN(ModelSpec model, FindModel("gpt3-6.7b"));
//   RC_ASSIGN_OR_RETURN(DeviceSpec device, FindDevice("a100-80g"));
//   RC_ASSIGN_OR_RETURN(CostProfile costs, CostsOfModel(model, device, layout));
//
// Pure.
#ifndef RECYCLE_SIMULATOR_MODEL_TABLE_H_
#define RECYCLE_SIMULATOR_MODEL_TABLE_H_

#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

struct ModelSpec {
  std::string_view name;
  int layers = 0;
  int hidden = 0;
  double parameters = 0;
};

struct DeviceSpec {
  std::string_view name;
  double tflop_per_s = 0;  // bf16, dense
  double memory_gb = 0;
  double memory_gb_per_s = 0;
  double link_gb_per_s = 0;  // to the next stage, per GPU
  double share_of_peak = 0;  // ASSUMED: what a stage reaches
};

// How a model is laid out for training.
struct ModelLayout {
  Parallelism parallel;  // one stage a worker
  int micro_batch_size = 1;
  int sequence = 2048;
};

// Error: kInvalidArgument naming the nearest known name.
StatusOr<ModelSpec> FindModel(std::string_view name);
StatusOr<DeviceSpec> FindDevice(std::string_view name);

// Costs in milliseconds and bytes, per GPU, with no capacity. F = 2 * tokens * parameters of the
// stage + attention, at the device's rate; I and W are 1.05 and 0.85 of it. Error: kInvalidArgument
// for durations that are too long to count.
StatusOr<CostProfile> CostsOfModel(const ModelSpec& model, const DeviceSpec& device,
                                   const ModelLayout& layout);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_MODEL_TABLE_H_
