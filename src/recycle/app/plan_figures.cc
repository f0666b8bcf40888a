#include "recycle/app/plan_figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recycle/base/check.h"
#include "recycle/plan/validate.h"

namespace recycle {
namespace {

// Costs of a command line count micro-batches, those of a model bytes: nobody holds 100,000 of the
// former.
std::string MemoryText(double memory) {
  return memory < 1e5 ? fmt::format("{:.6g}", memory) : fmt::format("{:.1f} MB", memory / 1e6);
}

}  // namespace

PlanSummary Summarize(const Plan& plan) {
  RC_CHECK(plan.makespan.has_value() && plan.period.has_value()) << "a plan without figures";
  PlanSummary summary;
  summary.makespan = ToUnits(*plan.makespan);
  summary.period = ToUnits(*plan.period);
  if (plan.lower_bound) summary.lower_bound = ToUnits(*plan.lower_bound);
  if (plan.lower_bound.value_or(0) > 0) summary.gap = summary.period / *summary.lower_bound - 1;
  summary.live_workers = static_cast<int>(plan.workers.size());
  summary.places = plan.parallel.num_workers();
  summary.fault_scaled = static_cast<double>(summary.live_workers) / summary.places;
  const std::vector<double> peaks = PeakMemory(plan);
  if (!peaks.empty()) summary.peak_activation = *std::max_element(peaks.begin(), peaks.end());
  return summary;
}

std::string FigureLine(const std::string& name, const std::string& value) {
  return fmt::format("{:<20} {}\n", name, value);
}

std::string WrittenLines(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    if (!file.empty()) text += FigureLine("written", file);
  }
  return text;
}

std::string FiguresAsText(const Plan& plan) {
  const PlanSummary summary = Summarize(plan);
  std::string text =
      FigureLine("method", fmt::format("{} ({}, {})", plan.method.empty() ? "unknown" : plan.method,
                                       plan.options.decoupled ? "decoupled" : "coupled",
                                       plan.options.staggered ? "staggered" : "synchronous"));
  std::string workers = fmt::format("{} of {} live", summary.live_workers, summary.places);
  if (!plan.failed.empty()) workers += ", without " + ToString(plan.failed);
  text += FigureLine("workers", workers);
  text += FigureLine("makespan", fmt::format("{:.6g} {}", summary.makespan, plan.costs.unit));
  text += FigureLine("period", fmt::format("{:.6g} {}", summary.period, plan.costs.unit));
  if (summary.lower_bound) {
    text += FigureLine(
        "lower bound",
        fmt::format("{:.6g} {}{}", *summary.lower_bound, plan.costs.unit,
                    summary.gap ? fmt::format(" (gap {:.2f}%)", *summary.gap * 100) : ""));
  }
  text += FigureLine("peak activation", MemoryText(summary.peak_activation));
  return text;
}

}  // namespace recycle
