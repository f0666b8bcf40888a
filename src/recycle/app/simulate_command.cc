#include "recycle/app/simulate_command.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "recycle/app/plan_figures.h"
#include "recycle/app/simulation_audit.h"
#include "recycle/app/simulation_page.h"
#include "recycle/app/simulation_plans.h"
#include "recycle/app/simulation_report.h"
#include "recycle/base/file.h"

namespace recycle {
namespace {

// Follows an interval with points: its stall, then its run.
void Extend(const Interval& interval, double samples_per_batch, std::vector<CurvePoint>& curve) {
  const auto add = [&](double from_s, double throughput) {
    const CurvePoint point{from_s, throughput, interval.live->count()};
    const bool same = !curve.empty() && curve.back().throughput == point.throughput &&
                      curve.back().live == point.live;
    if (!same) curve.push_back(point);
  };
  if (interval.stall_s > 0) add(interval.from_s, 0);
  if (interval.to_s - interval.from_s > interval.stall_s) {
    add(interval.from_s + interval.stall_s, interval.rate * samples_per_batch);
  }
}

}  // namespace

Status RunSimulateCommand(const SimulateArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const SimulationSetup setup, MakeSimulationSetup(arguments));
  SimulationPlans plans(setup.plans, arguments.search);
  const SimulationRequest request{.job = setup.job,
                                  .constants = setup.constants,
                                  .planner = plans,
                                  .move_roles = !arguments.no_moves};
  std::unique_ptr<SimulationAudit> audit;
  if (!arguments.audit.empty()) {
    RC_ASSIGN_OR_RETURN(audit, SimulationAudit::Open(arguments.audit, plans));
  }
  SimulationReport report{.setup = setup, .results = {}, .curves = {}};
  for (const std::string_view policy : setup.policies) {
    std::vector<CurvePoint> curve;
    const auto observe = [&](const Interval& interval) -> Status {
      Extend(interval, setup.job.samples_per_batch(), curve);
      return audit == nullptr ? OkStatus() : audit->Add(interval);
    };
    RC_ASSIGN_OR_RETURN(PolicyResult result, Simulate(request, setup.timeline, policy, observe));
    report.results.push_back(std::move(result));
    report.curves.push_back(std::move(curve));
  }
  if (audit != nullptr) RC_RETURN_IF_ERROR(audit->Commit());
  if (!arguments.html.empty()) {
    RC_RETURN_IF_ERROR(WriteFileAtomically(arguments.html, ReportAsPage(report)));
  }
  if (arguments.json) {
    out << ReportAsJson(report);
    return OkStatus();
  }
  out << ReportAsTable(report);
  if (!arguments.audit.empty() || !arguments.html.empty()) {
    out << "\n" << WrittenLines({arguments.audit, arguments.html});
  }
  return OkStatus();
}

}  // namespace recycle
