#include "recycle/plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace recycle {
namespace {

constexpr double kRelative = 1e-6;

void CompareFigure(const char* name, const std::optional<Ticks>& stated, Ticks recomputed,
                   std::vector<std::string>& errors) {
  if (!stated) return;
  const double difference = std::abs(ToUnits(*stated) - ToUnits(recomputed));
  if (difference <= kRelative * ToUnits(recomputed)) return;
  errors.push_back(fmt::format("{} is stated as {:.10g} but is {:.10g}", name, ToUnits(*stated),
                               ToUnits(recomputed)));
}

}  // namespace

CheckReport CheckPlan(const Plan& plan) {
  CheckReport report;
  report.violations = FindViolations(plan);
  for (const Violation& violation : report.violations) {
    report.errors.push_back(fmt::format("rule {}: {}", violation.rule, violation.message));
  }
  const StatusOr<PlanFigures> figures = ComputeFigures(plan);
  if (!figures.ok()) {
    if (report.errors.empty()) report.errors.emplace_back(figures.status().message());
    return report;
  }
  report.figures = *figures;
  if (report.violations.empty()) {
    const std::vector<double> peaks = PeakMemory(plan);
    for (const double peak : peaks) report.peak_memory = std::max(report.peak_memory, peak);
  }
  CompareFigure("makespan", plan.makespan, figures->makespan, report.errors);
  CompareFigure("period", plan.period, figures->period, report.errors);
  if (plan.lower_bound && ToUnits(*plan.lower_bound) > ToUnits(figures->period) * (1 + kRelative)) {
    report.errors.push_back(
        fmt::format("lower_bound is stated as {:.10g}, above the period {:.10g}",
                    ToUnits(*plan.lower_bound), ToUnits(figures->period)));
  }
  return report;
}

}  // namespace recycle
