#include "recycle/plan/costs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "recycle/plan/json_text.h"

namespace recycle {
namespace {

std::string StageText(const StageCosts& stage) {
  std::string text = fmt::format(
      R"({{"forward": {}, "backward_input": {}, "backward_weight": {}, "optimizer": {}, )"
      R"("all_reduce": {}, "activation_bytes": {}, "deferred_bytes": {})",
      UnitsText(stage.forward), UnitsText(stage.backward_input), UnitsText(stage.backward_weight),
      UnitsText(stage.optimizer), UnitsText(stage.all_reduce), stage.activation_bytes,
      stage.deferred_bytes);
  if (stage.capacity_bytes) text += fmt::format(R"(, "capacity_bytes": {})", *stage.capacity_bytes);
  const std::pair<const char*, double> weights[] = {{"boundary_bytes", stage.boundary_bytes},
                                                    {"parameter_bytes", stage.parameter_bytes},
                                                    {"state_bytes", stage.state_bytes}};
  for (const auto& [key, bytes] : weights) {
    if (bytes != 0) text += fmt::format(R"(, "{}": {})", key, bytes);
  }
  return text + "}";
}

// One number when all boundaries are alike, else a list.
std::string SendText(const std::vector<Ticks>& sends) {
  const bool alike =
      std::all_of(sends.begin(), sends.end(), [&](Ticks t) { return t == sends[0]; });
  if (alike) return UnitsText(sends.empty() ? 0 : sends[0]);
  return ListText(sends, UnitsText);
}

StatusOr<Ticks> ReadTicks(const JsonValue& value) {
  RC_ASSIGN_OR_RETURN(const double units, value.Number());
  return ToTicks(units, value.path());
}

StatusOr<StageCosts> ReadStage(const JsonValue& value) {
  RC_RETURN_IF_ERROR(
      value.CheckKeys({"forward", "backward_input", "backward_weight", "optimizer", "all_reduce",
                       "activation_bytes", "deferred_bytes", "capacity_bytes", "boundary_bytes",
                       "parameter_bytes", "state_bytes"}));
  StageCosts stage;
  const auto ticks = [&](std::string_view key, bool optional, Ticks& out) -> Status {
    if (optional && !value.Has(key)) return OkStatus();
    RC_ASSIGN_OR_RETURN(const JsonValue member, value.Get(key));
    RC_ASSIGN_OR_RETURN(out, ReadTicks(member));
    return OkStatus();
  };
  const auto bytes = [&](std::string_view key, double& out) -> Status {
    if (!value.Has(key)) return OkStatus();
    RC_ASSIGN_OR_RETURN(const JsonValue member, value.Get(key));
    RC_ASSIGN_OR_RETURN(out, member.Number());
    return OkStatus();
  };
  RC_RETURN_IF_ERROR(ticks("forward", false, stage.forward));
  RC_RETURN_IF_ERROR(ticks("backward_input", false, stage.backward_input));
  RC_RETURN_IF_ERROR(ticks("backward_weight", false, stage.backward_weight));
  RC_RETURN_IF_ERROR(ticks("optimizer", true, stage.optimizer));
  RC_RETURN_IF_ERROR(ticks("all_reduce", true, stage.all_reduce));
  RC_RETURN_IF_ERROR(bytes("activation_bytes", stage.activation_bytes));
  stage.deferred_bytes = stage.activation_bytes;
  RC_RETURN_IF_ERROR(bytes("deferred_bytes", stage.deferred_bytes));
  RC_RETURN_IF_ERROR(bytes("boundary_bytes", stage.boundary_bytes));
  RC_RETURN_IF_ERROR(bytes("parameter_bytes", stage.parameter_bytes));
  RC_RETURN_IF_ERROR(bytes("state_bytes", stage.state_bytes));
  if (value.Has("capacity_bytes")) {
    RC_RETURN_IF_ERROR(bytes("capacity_bytes", stage.capacity_bytes.emplace()));
  }
  return stage;
}

// One number for every boundary, or a list with one entry each; 0 if the key is absent.
Status ReadSends(const JsonValue& costs, std::string_view key, std::size_t boundaries,
                 std::vector<Ticks>& out) {
  out.assign(boundaries, 0);
  if (!costs.Has(key)) return OkStatus();
  RC_ASSIGN_OR_RETURN(const JsonValue value, costs.Get(key));
  if (value.is_number()) {
    RC_ASSIGN_OR_RETURN(const Ticks ticks, ReadTicks(value));
    out.assign(boundaries, ticks);
    return OkStatus();
  }
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, value.ListOf(boundaries));
  for (std::size_t i = 0; i < boundaries; ++i) {
    RC_ASSIGN_OR_RETURN(out[i], ReadTicks(entries[i]));
  }
  return OkStatus();
}

}  // namespace

std::string CostsToJson(const CostProfile& costs) {
  return fmt::format(R"({{"unit": {}, "send_forward": {}, "send_backward": {},
  "stages": {}}})",
                     QuotedJson(costs.unit), SendText(costs.send_forward),
                     SendText(costs.send_backward), ListText(costs.stages, StageText, ",\n    "));
}

StatusOr<CostProfile> CostsFromJson(const JsonValue& value) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"unit", "send_forward", "send_backward", "stages"}));
  CostProfile costs;
  if (value.Has("unit")) {
    RC_ASSIGN_OR_RETURN(const JsonValue unit, value.Get("unit"));
    RC_ASSIGN_OR_RETURN(costs.unit, unit.Text());
  }
  RC_RETURN_IF_ERROR(ReadOptionalList(value, "stages", costs.stages, ReadStage));
  if (costs.stages.empty()) return value.Refuse("stages must have one entry per stage");
  const std::size_t boundaries = costs.stages.size() - 1;
  RC_RETURN_IF_ERROR(ReadSends(value, "send_forward", boundaries, costs.send_forward));
  RC_RETURN_IF_ERROR(ReadSends(value, "send_backward", boundaries, costs.send_backward));
  return costs;
}

StatusOr<CostProfile> ProfileFromJson(std::string_view json) {
  RC_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(json));
  if (document.is_object() && document.contains("costs")) {
    return CostsFromJson(JsonValue(document.at("costs"), "costs"));
  }
  return CostsFromJson(JsonValue(document, "profile"));
}

}  // namespace recycle
