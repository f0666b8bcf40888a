#include "recycle/app/simulation_audit.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "recycle/plan/plan_json.h"

namespace recycle {

StatusOr<std::unique_ptr<SimulationAudit>> SimulationAudit::Open(const std::string& path,
                                                                 SimulationPlanner& planner) {
  std::unique_ptr<SimulationAudit> audit(new SimulationAudit(path, planner));
  std::error_code error;
  std::filesystem::create_directories(audit->folder_, error);
  if (error) {
    return absl::PermissionDeniedError(
        fmt::format("--audit: {} cannot be made ({}); name a file in a folder you may write to",
                    audit->folder_, error.message()));
  }
  if (!std::filesystem::is_empty(audit->folder_, error)) {
    return absl::InvalidArgumentError(
        fmt::format("--audit: {} holds plans of an earlier audit; name another file or remove it",
                    audit->folder_));
  }
  return audit;
}

StatusOr<std::string> SimulationAudit::FileOf(const PlanInForce& plan) {
  const auto known = files_.find(plan);
  if (known != files_.end()) return known->second;
  StatusOr<Plan> made = plan.kind == PlanInForce::Kind::kOneFOneB
                            ? planner_.OneFOneBPlan(plan.pipelines, plan.micro_batches)
                            : planner_.ReroutingPlan(plan.variant, plan.failed);
  if (!made.ok()) return made.status();
  const std::string file = fmt::format("plan{}.json", files_.size() + 1);
  RC_RETURN_IF_ERROR(WritePlanFile(*made, folder_ + "/" + file));
  files_[plan] = file;
  return file;
}

Status SimulationAudit::Add(const Interval& interval) {
  nlohmann::ordered_json line;
  line["policy"] = interval.policy->name();
  line["from_s"] = interval.from_s;
  line["to_s"] = interval.to_s;
  line["live"] = interval.live->count();
  line["failed_per_stage"] = interval.live->failed_per_stage();
  line["failed"] = nlohmann::json::array();
  for (const WorkerId worker : interval.live->Failed()) line["failed"].push_back(ToString(worker));
  line["rate"] = interval.rate;
  line["period_ms"] = interval.period_s * 1000;
  line["stall_s"] = interval.stall_s;
  line["lost_samples"] = interval.lost_samples;
  line["plan"] = nullptr;
  const PlanInForce plan = interval.policy->plan();
  if (plan.kind != PlanInForce::Kind::kNone) {
    RC_ASSIGN_OR_RETURN(line["plan"], FileOf(plan));
  }
  lines_.Append(line.dump() + "\n");
  return OkStatus();
}

}  // namespace recycle
