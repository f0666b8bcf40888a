// Pictures of a plan. Pure text in, text out.
#ifndef RECYCLE_PLAN_PICTURES_H_
#define RECYCLE_PLAN_PICTURES_H_

#include <optional>
#include <string>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/plan/validate.h"

namespace recycle {

// A grid: time across, workers down, one column a slot of the shortest action; the errors of an
// illegal plan are marked "<-- here". For terminals and tests; meant for small plans.
std::string PlanToGrid(const Plan& plan, const std::vector<Violation>& violations = {});

// Chrome trace (opens in Perfetto): process = pipeline, thread = stage, 1 cost unit = 1 ms.
StatusOr<std::string> PlanToChromeTrace(const Plan& plan);

// A self-contained HTML page (inline SVG, no network): a zoomable Gantt of `plan` with bubbles,
// re-routed work in its own colour, and, if given, `fault_free` above it on the same scale.
StatusOr<std::string> PlanToHtml(const Plan& plan, const Plan* fault_free = nullptr);

}  // namespace recycle

#endif  // RECYCLE_PLAN_PICTURES_H_
