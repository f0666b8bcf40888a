// The figures of a plan, for tables and JSON.
#ifndef RECYCLE_APP_PLAN_FIGURES_H_
#define RECYCLE_APP_PLAN_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "recycle/plan/plan.h"

namespace recycle {

// In the unit of the plan's costs.
struct PlanSummary {
  double makespan = 0;
  double period = 0;
  std::optional<double> lower_bound;
  std::optional<double> gap;  // period / lower_bound - 1; absent if the bound is absent or 0
  int live_workers = 0;
  int places = 0;              // DP * PP
  double fault_scaled = 0;     // live_workers / places
  double peak_activation = 0;  // largest over the workers, in the plan's bytes
};

// `plan` is legal and has makespan and period.
PlanSummary Summarize(const Plan& plan);

// Lines "name  value" for people.
std::string FiguresAsText(const Plan& plan);

// One such line; `name` at most 20 characters.
std::string FigureLine(const std::string& name, const std::string& value);

// A line for every file that was written, so that a person knows where to look; "" is no file.
std::string WrittenLines(const std::vector<std::string>& files);

}  // namespace recycle

#endif  // RECYCLE_APP_PLAN_FIGURES_H_
