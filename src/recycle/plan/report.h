// What `recycle check` says about a plan: every broken rule, the figures recomputed, and whether
// the stated ones agree.
//
//   const CheckReport report = CheckPlan(plan);
//   if (!report.ok()) for (const std::string& error : report.errors) ...
//
// Pure.
#ifndef RECYCLE_PLAN_REPORT_H_
#define RECYCLE_PLAN_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "recycle/plan/plan.h"
#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"

namespace recycle {

struct CheckReport {
  std::vector<Violation> violations;
  std::optional<PlanFigures> figures;  // recomputed; absent if the plan cannot be timed
  double peak_memory = 0;              // largest over the workers; 0 if the plan is not legal
  // One sentence each: the violations' messages, then stated figures that are off.
  std::vector<std::string> errors;

  bool ok() const { return errors.empty(); }
};

// A stated makespan or period may differ from the recomputed one by 1e-6 relative; a stated
// lower_bound may not be above the recomputed period.
CheckReport CheckPlan(const Plan& plan);

}  // namespace recycle

#endif  // RECYCLE_PLAN_REPORT_H_
