#include "recycle/simulator/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "recycle/plan/nearest.h"
#include "recycle/simulator/bamboo_policy.h"
#include "recycle/simulator/elastic_policy.h"
#include "recycle/simulator/fault_free_policy.h"
#include "recycle/simulator/fault_scaled_policy.h"
#include "recycle/simulator/oobleck_policy.h"
#include "recycle/simulator/oobleck_published_policy.h"
#include "recycle/simulator/recycle_policy.h"
#include "recycle/simulator/restart_policy.h"
#include "recycle/simulator/spares_policy.h"
#include "recycle/simulator/varuna_policy.h"

namespace recycle {
namespace {

using Factory = std::function<std::unique_ptr<FailurePolicy>(const PolicyInput&)>;
using Entry = std::pair<std::string_view, Factory>;

constexpr std::string_view kPublished = "oobleck-published";
// Curves hold for models of at most so many parameters: they are not stretched to larger ones.
constexpr double kLargestPublished = 8e9;

template <typename PolicyType>
Entry Plain(std::string_view name) {
  return {name, [](const PolicyInput& input) { return std::make_unique<PolicyType>(input); }};
}

Entry Recycle(const RecycleOptions& options) {
  return {options.name, [options](const PolicyInput& input) {
            return std::make_unique<RecyclePolicy>(input, options);
          }};
}

const std::vector<double>* CurveFor(const SimulatedJob& job, const PolicyConstants& constants) {
  if (job.parameters > kLargestPublished) return nullptr;
  return PublishedOobleckCurve(constants.model_row);
}

const std::vector<Entry>& AllPolicies() {
  static const std::vector<Entry> entries = {
      Recycle({.name = "recycle"}),
      Recycle({.name = "recycle-rerun", .rerun = true}),
      Recycle({.name = "recycle-no-stagger", .variant = PlanVariant::kNoStagger}),
      Recycle({.name = "recycle-no-decouple", .variant = PlanVariant::kNoDecouple}),
      Recycle({.name = "recycle-naive", .variant = PlanVariant::kNaive}),
      Plain<FaultFreePolicy>("fault-free"),
      Plain<FaultScaledPolicy>("fault-scaled"),
      {"restart", MakeRestartPolicy},
      {"spares", MakeSparesPolicy},
      Plain<ElasticPolicy>("elastic"),
      Plain<BambooPolicy>("bamboo"),
      Plain<OobleckPolicy>("oobleck"),
      {kPublished,
       [](const PolicyInput& input) {
         return std::make_unique<OobleckPublishedPolicy>(input,
                                                         *CurveFor(input.job, input.constants));
       }},
      {"varuna", MakeVarunaPolicy}};
  return entries;
}

}  // namespace

const std::vector<std::string_view>& PolicyNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const Entry& entry : AllPolicies()) list.push_back(entry.first);
    return list;
  }();
  return names;
}

std::vector<std::string_view> PolicyNamesFor(const SimulatedJob& job,
                                             const PolicyConstants& constants) {
  std::vector<std::string_view> names = PolicyNames();
  if (CurveFor(job, constants) == nullptr) std::erase(names, kPublished);
  return names;
}

Status CheckPolicyName(std::string_view name, const SimulatedJob& job,
                       const PolicyConstants& constants) {
  const std::vector<std::string_view>& names = PolicyNames();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return absl::InvalidArgumentError(
        fmt::format("--policy: {} is not a policy; the nearest valid choice is {}", name,
                    NearestName(name, names)));
  }
  if (name == kPublished && CurveFor(job, constants) == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("--policy: {} has no curve for {:.3g} parameters, only for GPT-3 Medium, 2.7B "
                    "and 6.7B; the nearest valid choice is oobleck",
                    name, job.parameters));
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<FailurePolicy>> MakePolicy(std::string_view name,
                                                    const PolicyInput& input) {
  RC_RETURN_IF_ERROR(CheckPolicyName(name, input.job, input.constants));
  const std::vector<Entry>& entries = AllPolicies();
  return std::find_if(entries.begin(), entries.end(),
                      [name](const Entry& entry) { return entry.first == name; })
      ->second(input);
}

}  // namespace recycle
