#include "recycle/simulator/model_table.h"

#include <fmt/format.h>

#include <array>

#include "recycle/plan/nearest.h"
#include "recycle/simulator/memory_model.h"

namespace recycle {
namespace {

constexpr double kVocabulary = 51200;
constexpr double kInputShare = 1.05;   // I / F
constexpr double kWeightShare = 0.85;  // W / F
constexpr double kBytesPerNumber = 2;  // bf16

// 12 * layers * hidden^2 for the blocks, and the embedding.
constexpr ModelSpec Gpt3(std::string_view name, int layers, int hidden) {
  const double width = hidden;
  return {name, layers, hidden, 12.0 * layers * width * width + kVocabulary * width};
}

constexpr std::array<ModelSpec, 8> kModels = {{Gpt3("gpt3-medium", 24, 1024),
                                               Gpt3("gpt3-3.35b", 28, 3072),
                                               Gpt3("gpt3-6.7b", 32, 4096),
                                               Gpt3("gpt3-18.4b", 40, 6144),
                                               Gpt3("gpt3-39.1b", 48, 8192),
                                               Gpt3("gpt3-76.1b", 60, 10240),
                                               Gpt3("gpt3-145.6b", 80, 12288),
                                               {"llama3-405b", 126, 16384, 405e9}}};

constexpr std::array<DeviceSpec, 4> kDevices = {{{"a100-80g", 312, 80, 2039, 25, 0.45},
                                                 {"h100-80g", 989, 80, 3350, 50, 0.40},
                                                 {"h200-141g", 989, 141, 4800, 50, 0.40},
                                                 {"a40-48g", 150, 48, 696, 10, 0.45}}};

template <typename Spec, std::size_t kSize>
StatusOr<Spec> Find(std::string_view option, std::string_view name,
                    const std::array<Spec, kSize>& table) {
  std::vector<std::string_view> names;
  for (const Spec& spec : table) {
    if (spec.name == name) return spec;
    names.push_back(spec.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is not known; the nearest valid choice is {}", option, name,
                  NearestName(name, names)));
}

}  // namespace

StatusOr<ModelSpec> FindModel(std::string_view name) { return Find("--model", name, kModels); }

StatusOr<DeviceSpec> FindDevice(std::string_view name) { return Find("--device", name, kDevices); }

StatusOr<CostProfile> CostsOfModel(const ModelSpec& model, const DeviceSpec& device,
                                   const ModelLayout& layout) {
  constexpr double kMillisecondsPerSecond = 1000;
  const double gpus = static_cast<double>(layout.parallel.pipeline) * layout.parallel.tensor;
  const double parameters = model.parameters / gpus;
  const double tokens = static_cast<double>(layout.micro_batch_size) * layout.sequence;
  const double attention = 4 * tokens * layout.sequence * model.hidden * model.layers / gpus;
  const double flops_per_ms =
      device.tflop_per_s * 1e12 * device.share_of_peak / kMillisecondsPerSecond;
  const double forward_ms = (2 * tokens * parameters + attention) / flops_per_ms;
  const double link_bytes_per_ms = device.link_gb_per_s * 1e9 / kMillisecondsPerSecond;
  const double memory_bytes_per_ms = device.memory_gb_per_s * 1e9 / kMillisecondsPerSecond;

  StageCosts stage;
  RC_ASSIGN_OR_RETURN(stage.forward, ToTicks(forward_ms, "F"));
  RC_ASSIGN_OR_RETURN(stage.backward_input, ToTicks(kInputShare * forward_ms, "I"));
  RC_ASSIGN_OR_RETURN(stage.backward_weight, ToTicks(kWeightShare * forward_ms, "W"));
  RC_ASSIGN_OR_RETURN(stage.all_reduce,
                      ToTicks(2 * kBytesPerNumber * parameters / link_bytes_per_ms, "all_reduce"));
  RC_ASSIGN_OR_RETURN(stage.optimizer, ToTicks(16 * parameters / memory_bytes_per_ms, "optimizer"));
  stage.activation_bytes = ActivationBytes(model, layout);
  stage.deferred_bytes = stage.activation_bytes;
  stage.boundary_bytes = kBytesPerNumber * tokens * model.hidden;
  stage.parameter_bytes = kBytesPerNumber * parameters;
  stage.state_bytes = 16 * parameters;
  RC_ASSIGN_OR_RETURN(const Ticks send, ToTicks(stage.boundary_bytes / link_bytes_per_ms, "send"));
  CostProfile costs;
  costs.stages.assign(static_cast<std::size_t>(layout.parallel.pipeline), stage);
  costs.send_forward.assign(costs.stages.size() - 1, send);
  costs.send_backward = costs.send_forward;
  return costs;
}

}  // namespace recycle
