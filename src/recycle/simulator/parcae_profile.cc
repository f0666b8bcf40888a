#include "recycle/simulator/parcae_profile.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "recycle/plan/json_fields.h"
#include "recycle/plan/nearest.h"
#include "recycle/simulator/text_lines.h"

namespace recycle {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kInputOfBackward = 1.05 / (1.05 + 0.85);  // of the backward pass

// Transformer layers of the models that Parcae profiled; their files do not say.
constexpr std::array<std::pair<std::string_view, int>, 4> kLayers = {
    {{"gpt-2_", 24}, {"gpt-1.5b_", 48}, {"gpt-2.7b_", 32}, {"gpt-6.7b_", 32}}};

// Costs of a layer, in milliseconds, bytes and elements.
struct Layer {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double activations = 0;
  double parameters = 0;
};

StatusOr<double> ReadNumber(const JsonValue& owner, std::string_view key) {
  RC_ASSIGN_OR_RETURN(const JsonValue value, owner.Get(key));
  RC_ASSIGN_OR_RETURN(const double number, value.Number());
  if (number < 0) return value.Refuse("must be 0 or more");
  return number;
}

StatusOr<Layer> ReadLayer(const JsonValue& entry, std::string_view key) {
  RC_ASSIGN_OR_RETURN(const JsonValue value, entry.Get(key));
  RC_RETURN_IF_ERROR(value.CheckKeys({"forward", "backward", "optimizer", "acts", "params"}));
  Layer layer;
  RC_ASSIGN_OR_RETURN(layer.forward, ReadNumber(value, "forward"));
  RC_ASSIGN_OR_RETURN(layer.backward, ReadNumber(value, "backward"));
  RC_ASSIGN_OR_RETURN(layer.optimizer, ReadNumber(value, "optimizer"));
  RC_ASSIGN_OR_RETURN(const double mebibytes, ReadNumber(value, "acts"));
  RC_ASSIGN_OR_RETURN(layer.parameters, ReadNumber(value, "params"));
  layer.activations = mebibytes * kMebibyte;
  return layer;
}

void AddTimes(const Layer& layer, double count, Layer& sum) {
  sum.forward += count * layer.forward;
  sum.backward += count * layer.backward;
  sum.optimizer += count * layer.optimizer;
  sum.activations += count * layer.activations;
  sum.parameters += count * layer.parameters;
}

StatusOr<StageCosts> CostsOf(const Layer& stage) {
  StageCosts costs;
  RC_ASSIGN_OR_RETURN(costs.forward, ToTicks(stage.forward, "forward"));
  RC_ASSIGN_OR_RETURN(costs.backward_input, ToTicks(kInputOfBackward * stage.backward, "backward"));
  RC_ASSIGN_OR_RETURN(costs.backward_weight,
                      ToTicks((1 - kInputOfBackward) * stage.backward, "backward"));
  RC_ASSIGN_OR_RETURN(costs.optimizer, ToTicks(stage.optimizer, "optimizer"));
  costs.activation_bytes = stage.activations;
  costs.deferred_bytes = stage.activations;
  return costs;
}

StatusOr<std::string> ChooseEntry(const nlohmann::json& document, std::string_view wanted) {
  std::vector<std::string_view> names;
  for (const auto& [name, entry] : document.items()) {
    if (entry.is_object()) names.push_back(name);
  }
  if (names.size() == 1 && wanted.empty()) return std::string(names.front());
  for (const std::string_view name : names) {
    if (name == wanted) return std::string(name);
  }
  if (names.empty()) return absl::InvalidArgumentError("the profile has no model");
  return absl::InvalidArgumentError(
      fmt::format("the profile has {} models and --model is '{}'; the nearest valid choice is {}",
                  names.size(), wanted, NearestName(wanted, names)));
}

StatusOr<int> LayersOf(std::string_view name) {
  for (const auto& [prefix, layers] : kLayers) {
    if (name.starts_with(prefix)) return layers;
  }
  return absl::InvalidArgumentError(
      fmt::format("the profile does not say how many layers {} has; known are gpt-2, gpt-1.5b, "
                  "gpt-2.7b and gpt-6.7b",
                  name));
}

// "..._mbs4_seq1024": 4.
int MicroBatchSizeOf(std::string_view name) {
  constexpr std::string_view kMark = "_mbs";
  const std::size_t begin = name.find(kMark);
  if (begin == std::string_view::npos) return 1;
  const std::string_view rest = name.substr(begin + kMark.size());
  return WholeIn(rest.substr(0, rest.find('_'))).value_or(1);
}

}  // namespace

bool IsParcaeProfile(std::string_view text) {
  return text.find("\"transformer_layer\"") != std::string_view::npos;
}

StatusOr<ProfiledModel> ReadParcaeProfile(std::string_view text, std::string_view name,
                                          int stages) {
  RC_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(text));
  if (!document.is_object()) return absl::InvalidArgumentError("a profile is a JSON object");
  ProfiledModel model;
  RC_ASSIGN_OR_RETURN(model.name, ChooseEntry(document, name));
  const JsonValue entry(document.at(model.name), model.name);
  RC_RETURN_IF_ERROR(entry.CheckKeys({"first(embedding)", "transformer_layer", "last(head)"}));
  RC_ASSIGN_OR_RETURN(const Layer first, ReadLayer(entry, "first(embedding)"));
  RC_ASSIGN_OR_RETURN(const Layer middle, ReadLayer(entry, "transformer_layer"));
  RC_ASSIGN_OR_RETURN(const Layer last, ReadLayer(entry, "last(head)"));
  RC_ASSIGN_OR_RETURN(model.layers, LayersOf(model.name));
  model.micro_batch_size = std::max(1, MicroBatchSizeOf(model.name));
  model.parameters = first.parameters + model.layers * middle.parameters + last.parameters;
  if (stages > model.layers) {
    return absl::InvalidArgumentError(
        fmt::format("{} stages (--pp, times --virtual) are more than the {} layers of {}; the "
                    "nearest valid choice is {}",
                    stages, model.layers, model.name, model.layers));
  }
  for (int i = 0; i < stages; ++i) {
    Layer stage;
    const int count = model.layers / stages + (i < model.layers % stages ? 1 : 0);
    AddTimes(middle, count, stage);
    if (i == 0) AddTimes(first, 1, stage);
    if (i == stages - 1) AddTimes(last, 1, stage);
    RC_ASSIGN_OR_RETURN(const StageCosts costs, CostsOf(stage));
    model.costs.stages.push_back(costs);
  }
  model.costs.send_forward.assign(static_cast<std::size_t>(stages - 1), 0);
  model.costs.send_backward = model.costs.send_forward;
  return model;
}

}  // namespace recycle
