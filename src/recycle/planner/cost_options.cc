#include "recycle/planner/cost_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recycle/plan/nearest.h"

namespace recycle {
namespace {

constexpr std::array<std::pair<std::string_view, double UniformCosts::*>, 7> kKeys = {{
    {"F", &UniformCosts::forward},
    {"I", &UniformCosts::backward_input},
    {"W", &UniformCosts::backward_weight},
    {"send", &UniformCosts::send},
    {"opt", &UniformCosts::optimizer},
    {"allreduce", &UniformCosts::all_reduce},
    {"deferred", &UniformCosts::deferred},
}};

std::vector<std::string_view> KeyNames() {
  std::vector<std::string_view> names;
  names.reserve(kKeys.size());
  for (const auto& [name, member] : kKeys) names.push_back(name);
  return names;
}

Status CheckPlacement(const Parallelism& parallel) {
  if (parallel.placement != Placement::kV || parallel.virtual_stages == 2) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("virtual stages are {}, but placement v has 2; the nearest valid choice is 2",
                  parallel.virtual_stages));
}

// The part of `whole` that virtual stage `index` of `count` gets: parts differ by a tick at most
// and add up to the whole.
Ticks Share(Ticks whole, int count, int index) {
  return whole / count + (index < whole % count ? 1 : 0);
}

StageCosts ShareOf(const StageCosts& whole, int count, int index) {
  StageCosts part = whole;
  part.forward = Share(whole.forward, count, index);
  part.backward_input = Share(whole.backward_input, count, index);
  part.backward_weight = Share(whole.backward_weight, count, index);
  part.optimizer = Share(whole.optimizer, count, index);
  part.all_reduce = Share(whole.all_reduce, count, index);
  part.activation_bytes = whole.activation_bytes / count;
  part.deferred_bytes = whole.deferred_bytes / count;
  part.parameter_bytes = whole.parameter_bytes / count;
  part.state_bytes = whole.state_bytes / count;
  return part;
}

// The number `text` spells, if it is nothing but a finite number.
std::optional<double> FiniteNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

bool AllEqual(const std::vector<Ticks>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

}  // namespace

StatusOr<UniformCosts> ParseUniformCosts(std::string_view text) {
  UniformCosts costs;
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const auto* entry = std::find_if(kKeys.begin(), kKeys.end(),
                                     [&](const auto& known) { return known.first == key; });
    if (entry == kKeys.end() || equals == std::string_view::npos) {
      return absl::InvalidArgumentError(fmt::format(
          "cost '{}' must be key=value with a key of {}; the nearest valid choice is {}=1", item,
          fmt::join(KeyNames(), ", "), NearestName(key, KeyNames())));
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return absl::InvalidArgumentError(
          fmt::format("cost '{}' states {} a second time; name every key once", item, key));
    }
    seen.push_back(key);
    const std::optional<double> value = FiniteNumber(item.substr(equals + 1));
    if (!value.has_value() || *value < 0) {
      return absl::InvalidArgumentError(
          fmt::format("cost '{}' must have a finite number, 0 or more, as its value; the nearest "
                      "valid choice is {}={}",
                      item, key, value.has_value() ? 0 : 1));
    }
    costs.*entry->second = *value;
  }
  return costs;
}

StatusOr<CostProfile> MakeUniformProfile(const UniformCosts& costs, const Parallelism& parallel) {
  if (parallel.pipeline < 1 || parallel.virtual_stages < 1) {
    return absl::InvalidArgumentError(fmt::format(
        "pp is {} and virtual stages {}, but both must be at least 1; the nearest valid "
        "choice is 1",
        parallel.pipeline, parallel.virtual_stages));
  }
  RC_RETURN_IF_ERROR(CheckPlacement(parallel));
  StageCosts stage;
  RC_ASSIGN_OR_RETURN(stage.forward, ToTicks(costs.forward, "F"));
  RC_ASSIGN_OR_RETURN(stage.backward_input, ToTicks(costs.backward_input, "I"));
  RC_ASSIGN_OR_RETURN(stage.backward_weight, ToTicks(costs.backward_weight, "W"));
  RC_ASSIGN_OR_RETURN(stage.optimizer, ToTicks(costs.optimizer, "opt"));
  RC_ASSIGN_OR_RETURN(stage.all_reduce, ToTicks(costs.all_reduce, "allreduce"));
  RC_ASSIGN_OR_RETURN(const Ticks send, ToTicks(costs.send, "send"));
  stage.activation_bytes = 1;
  stage.deferred_bytes = costs.deferred;
  CostProfile profile;
  profile.unit = "unit";
  profile.stages.assign(static_cast<std::size_t>(parallel.pipeline), stage);
  profile.send_forward.assign(static_cast<std::size_t>(parallel.pipeline - 1), send);
  profile.send_backward = profile.send_forward;
  if (parallel.virtual_stages == 1) return profile;
  RC_ASSIGN_OR_RETURN(profile, SpreadOverVirtualStages(profile, parallel));
  profile.send_forward.assign(static_cast<std::size_t>(parallel.num_stages() - 1), send);
  profile.send_backward = profile.send_forward;
  return profile;
}

StatusOr<CostProfile> SpreadOverVirtualStages(const CostProfile& per_worker,
                                              const Parallelism& parallel) {
  RC_RETURN_IF_ERROR(CheckPlacement(parallel));
  if (per_worker.stages.size() != static_cast<std::size_t>(parallel.pipeline)) {
    return absl::InvalidArgumentError(
        fmt::format("costs have {} stages, but must have {}, one per worker of a pipeline",
                    per_worker.stages.size(), parallel.pipeline));
  }
  if (parallel.virtual_stages == 1) return per_worker;
  if (!AllEqual(per_worker.send_forward) || !AllEqual(per_worker.send_backward)) {
    return absl::InvalidArgumentError(fmt::format(
        "send_forward and send_backward must be one number where each entry is spread over a "
        "worker's several stages, as they have more boundaries; the nearest valid choice is one "
        "number, or an entry for each of the {} stages and a send for each of their {} boundaries",
        parallel.num_stages(), parallel.num_stages() - 1));
  }
  CostProfile profile;
  profile.unit = per_worker.unit;
  std::vector<int> seen(per_worker.stages.size(), 0);
  for (int stage = 0; stage < parallel.num_stages(); ++stage) {
    const auto column = static_cast<std::size_t>(parallel.Column(StageId(stage)).value());
    profile.stages.push_back(
        ShareOf(per_worker.stages[column], parallel.virtual_stages, seen[column]++));
  }
  const auto boundaries = static_cast<std::size_t>(parallel.num_stages() - 1);
  const auto send = [](const std::vector<Ticks>& sends) {
    return sends.empty() ? 0 : sends.front();
  };
  profile.send_forward.assign(boundaries, send(per_worker.send_forward));
  profile.send_backward.assign(boundaries, send(per_worker.send_backward));
  return profile;
}

Status ApplyMemoryCap(std::string_view cap, const Parallelism& parallel, CostProfile& costs) {
  const std::optional<double> micro_batches = FiniteNumber(cap);
  if (cap != "none" && cap != "1f1b" && !micro_batches.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("memory cap '{}' must be a number of micro-batches, 1f1b or none", cap));
  }
  std::vector<double> whole(static_cast<std::size_t>(parallel.pipeline), 0);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    costs.stages[stage].capacity_bytes.reset();
    const StageId column = parallel.Column(StageId(static_cast<std::int32_t>(stage)));
    whole[static_cast<std::size_t>(column.value())] += costs.stages[stage].activation_bytes;
  }
  if (cap == "none") return OkStatus();
  for (int column = 0; column < parallel.pipeline; ++column) {
    const double count = cap == "1f1b" ? parallel.pipeline - column : *micro_batches;
    const auto index = static_cast<std::size_t>(column);
    // A cap beyond all memory must stay a number.
    costs.stages[index].capacity_bytes = std::min(
        count * whole[index], std::numeric_limits<double>::max());  // stage `column` is its lowest
  }
  return OkStatus();
}

}  // namespace recycle
