#include "recycle/simulator/policy_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "recycle/base/check.h"
#include "recycle/plan/nearest.h"
#include "recycle/simulator/text_lines.h"

namespace recycle {
namespace {

constexpr std::string_view kOurs = "ours";
constexpr std::string_view kMeasured = "ours, measured when a group of workers is formed anew";
constexpr std::string_view kArtifact = "READ Oobleck sosp23-artifact, tools/simulator";
constexpr std::string_view kAssumed = "ASSUMED";
constexpr std::string_view kAssumedVaruna = "ASSUMED, Varuna's row";
constexpr std::string_view kFromTable1 =
    "DERIVED from the paper's Table 1: 19.47 / 27.58 at 6 h over 0.98 live";

using Access = std::function<double&(PolicyConstants&)>;

struct Entry {
  ConstantInfo info;
  Access value;
};

void AddRestart(std::string_view detect, std::string_view restart, std::string_view checkpoint,
                std::string_view interval, RestartConstants PolicyConstants::*part,
                std::string_view source, std::vector<Entry>& entries) {
  const auto add = [&](std::string_view name, std::string_view where,
                       double RestartConstants::*value) {
    entries.push_back(
        {{name, where}, [part, value](PolicyConstants& c) -> double& { return c.*part.*value; }});
  };
  add(detect, kOurs, &RestartConstants::detect_s);
  add(restart, source, &RestartConstants::restart_s);
  add(checkpoint, source, &RestartConstants::checkpoint_s);
  add(interval, "0: Young's, sqrt(2 * checkpoint * MTBF of the trace)",
      &RestartConstants::interval_s);
}

std::vector<Entry> MakeEntries() {
  std::vector<Entry> entries;
  const auto add = [&](std::string_view name, std::string_view source,
                       double PolicyConstants::*value) {
    entries.push_back(
        {{name, source}, [value](PolicyConstants& c) -> double& { return c.*value; }});
  };
  add("recycle.detect_s", kOurs, &PolicyConstants::recycle_detect_s);
  add("recycle.resume_s", kMeasured, &PolicyConstants::recycle_resume_s);
  add("recycle.state_bytes_per_parameter", kOurs, &PolicyConstants::recycle_state_bytes);
  add("recycle.copy_gb_per_s", "the device's link, else ours",
      &PolicyConstants::recycle_copy_gb_per_s);
  AddRestart("restart.detect_s", "restart.restart_s", "restart.checkpoint_s", "restart.interval_s",
             &PolicyConstants::restart, kAssumedVaruna, entries);
  AddRestart("spares.detect_s", "spares.restart_s", "spares.checkpoint_s", "spares.interval_s",
             &PolicyConstants::spares, kAssumedVaruna, entries);
  AddRestart("varuna.detect_s", "varuna.restart_s", "varuna.checkpoint_s", "varuna.interval_s",
             &PolicyConstants::varuna, kArtifact, entries);
  add("varuna.checkpoint_iterations", kArtifact, &PolicyConstants::varuna_iterations);
  add("elastic.detect_s", kOurs, &PolicyConstants::elastic_detect_s);
  add("elastic.regroup_s", kAssumed, &PolicyConstants::elastic_regroup_s);
  add("bamboo.detect_s", kOurs, &PolicyConstants::bamboo_detect_s);
  add("bamboo.reconfigure_s", kArtifact, &PolicyConstants::bamboo_reconfigure_s);
  add("bamboo.throughput", kFromTable1, &PolicyConstants::bamboo_throughput);
  add("oobleck.detect_s", kOurs, &PolicyConstants::oobleck_detect_s);
  add("oobleck.reconfigure_s", kArtifact, &PolicyConstants::oobleck_reconfigure_s);
  add("instance.usable_s", kArtifact, &PolicyConstants::instance_usable_s);
  add("money.usd_per_gpu_hour", kAssumed, &PolicyConstants::gpu_hour);
  return entries;
}

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> entries = MakeEntries();
  return entries;
}

// Model-dependent constants, in the order of the artifact. Parameter counts are the models' names,
// BERT-large and GPT-2 are found by name alone.
struct ModelRow {
  std::string_view name;
  double parameters;
  double oobleck_reconfigure_s;
  double bamboo_reconfigure_s;
  double varuna_restart_s;
  double varuna_checkpoint_s;
};
constexpr std::array<ModelRow, 5> kRows = {{{"bert-large", 0, 2, 76, 76, 15.8},
                                            {"gpt2", 0, 2, 80, 83, 11.5},
                                            {"gpt3-medium", 350e6, 3, 100, 78.7, 11.2},
                                            {"gpt3-2.7b", 2.7e9, 6, 230, 515, 50},
                                            {"gpt3-6.7b", 6.7e9, 10, 450, 701, 120}}};

const ModelRow& RowFor(const SimulatedJob& job) {
  const ModelRow* nearest = nullptr;
  double least = 0;
  for (const ModelRow& row : kRows) {
    if (job.model == row.name) return row;
    if (row.parameters == 0) continue;
    const double distance = std::abs(std::log(job.parameters / row.parameters));
    if (nearest == nullptr || distance < least) {
      nearest = &row;
      least = distance;
    }
  }
  return *nearest;
}

}  // namespace

const std::vector<ConstantInfo>& ConstantTable() {
  static const std::vector<ConstantInfo> table = [] {
    std::vector<ConstantInfo> infos;
    for (const Entry& entry : Entries()) infos.push_back(entry.info);
    return infos;
  }();
  return table;
}

double ConstantValue(const PolicyConstants& constants, std::string_view name) {
  for (const Entry& entry : Entries()) {
    // The accessor needs something it could change; a copy will do.
    if (entry.info.name == name) {
      PolicyConstants copy = constants;
      return entry.value(copy);
    }
  }
  RC_CHECK(false) << "no constant is called " << name;
  return 0;
}

PolicyConstants ConstantsFor(const SimulatedJob& job) {
  const ModelRow& row = RowFor(job);
  PolicyConstants constants;
  constants.model_row = row.name;
  constants.recycle_copy_gb_per_s = job.copy_gb_per_s;
  constants.oobleck_reconfigure_s = row.oobleck_reconfigure_s;
  constants.bamboo_reconfigure_s = row.bamboo_reconfigure_s;
  for (RestartConstants* restart : {&constants.restart, &constants.spares, &constants.varuna}) {
    restart->restart_s = row.varuna_restart_s;
    restart->checkpoint_s = row.varuna_checkpoint_s;
  }
  return constants;
}

Status SetConstant(std::string_view assignment, PolicyConstants& constants) {
  const std::size_t equals = assignment.find('=');
  const std::string_view name = assignment.substr(0, equals);
  const std::optional<double> value =
      equals == std::string_view::npos ? std::nullopt : NumberIn(assignment.substr(equals + 1));
  if (!value.has_value() || *value < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "--set: {} must be NAME=VALUE with a number of 0 or more, such as recycle.detect_s=2",
        assignment));
  }
  if (name == "recycle.copy_gb_per_s" && *value == 0) {
    return absl::InvalidArgumentError("--set: recycle.copy_gb_per_s must be above 0");
  }
  int matches = 0;
  std::vector<std::string_view> names = {"detect_s"};
  for (const Entry& entry : Entries()) {
    names.push_back(entry.info.name);
    const bool all_policies = name == "detect_s" && entry.info.name.ends_with(".detect_s");
    if (entry.info.name != name && !all_policies) continue;
    entry.value(constants) = *value;
    ++matches;
  }
  if (matches > 0) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--set: {} is not a constant; the nearest valid choice is {}", name,
                  NearestName(name, names)));
}

const std::vector<double>* PublishedOobleckCurve(std::string_view model_row) {
  static const std::vector<double> medium = {38.468, 37.186, 35.904, 34.622, 33.339, 31.666,
                                             30.241, 28.964, 27.775, 26.685, 25.689, 23.825,
                                             23.034, 21.577, 20.865, 19.103};
  static const std::vector<double> middle = {9.2143, 8.9072, 8.6000, 8.2929, 7.9857, 7.6271,
                                             7.5123, 7.4354, 7.0528, 6.7048, 6.7973, 6.1050,
                                             6.1151, 5.6307, 5.6306, 5.1307};
  static const std::vector<double> large = {5.5078, 5.3242, 5.1406, 4.9570, 4.7734, 4.8088,
                                            4.3299, 4.1852, 3.9472, 4.0109, 4.1544, 3.7123,
                                            3.5933, 3.2840, 3.5309, 0};
  if (model_row == "gpt3-medium") return &medium;
  if (model_row == "gpt3-2.7b") return &middle;
  if (model_row == "gpt3-6.7b") return &large;
  return nullptr;
}

}  // namespace recycle
