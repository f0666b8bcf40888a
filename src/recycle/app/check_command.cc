#include "recycle/app/check_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "recycle/app/plan_figures.h"
#include "recycle/plan/pictures.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/report.h"

namespace recycle {
namespace {

constexpr std::size_t kMostActionsInGrid = 2000;  // a grid beyond that hides more than it shows

std::size_t NumActions(const Plan& plan) {
  std::size_t count = 0;
  for (const WorkerSchedule& worker : plan.workers) count += worker.actions.size();
  return count;
}

std::string ReasonText(const Violation& violation) {
  std::string text;
  if (violation.rule > 0) text += fmt::format("rule {}: ", violation.rule);
  if (violation.worker) text += fmt::format("worker {}: ", ToString(*violation.worker));
  return text + violation.message;
}

nlohmann::ordered_json ViolationJson(const Violation& violation) {
  nlohmann::ordered_json json;
  json["rule"] = violation.rule;
  if (violation.worker) json["worker"] = ToString(*violation.worker);
  if (violation.position) json["position"] = *violation.position;
  json["message"] = violation.message;
  return json;
}

// The figures as recomputed, whatever the plan states.
Plan WithFigures(Plan plan, const PlanFigures& figures) {
  plan.makespan = figures.makespan;
  plan.period = figures.period;
  return plan;
}

void PrintText(const Plan& plan, const CheckReport& report, std::ostream& out) {
  out << (report.ok() ? "legal\n" : "not legal\n");
  for (const Violation& violation : report.violations) {
    out << "  " << ReasonText(violation) << "\n";
  }
  if (report.violations.empty()) {
    for (const std::string& error : report.errors) out << "  " << error << "\n";
    if (report.figures) out << FiguresAsText(WithFigures(plan, *report.figures));
  } else if (NumActions(plan) <= kMostActionsInGrid) {
    out << "\n" << PlanToGrid(plan, report.violations);
  }
}

void PrintJson(const Plan& plan, const CheckReport& report, std::ostream& out) {
  nlohmann::ordered_json json;
  json["legal"] = report.ok();
  json["errors"] = report.errors;
  json["violations"] = nlohmann::ordered_json::array();
  for (const Violation& violation : report.violations) {
    json["violations"].push_back(ViolationJson(violation));
  }
  if (report.figures && report.violations.empty()) {
    const PlanSummary summary = Summarize(WithFigures(plan, *report.figures));
    json["makespan"] = summary.makespan;
    json["period"] = summary.period;
    if (summary.lower_bound) json["lower_bound"] = *summary.lower_bound;
    json["peak_activation"] = report.peak_memory;
    json["live_workers"] = summary.live_workers;
    json["method"] = plan.method;
  }
  out << json.dump() << "\n";
}

}  // namespace

StatusOr<ExitCode> RunCheckCommand(const CheckArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const Plan plan, ReadPlanFile(arguments.plan_file));
  const CheckReport report = CheckPlan(plan);
  if (arguments.json) {
    PrintJson(plan, report, out);
  } else {
    PrintText(plan, report, out);
  }
  return report.ok() ? ExitCode::kDone : ExitCode::kNo;
}

}  // namespace recycle
