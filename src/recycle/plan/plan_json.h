// Plans as files: JSON, "format": "recycle-plan/1" (docs/PLAN_FORMAT.md has every key).
#ifndef RECYCLE_PLAN_PLAN_JSON_H_
#define RECYCLE_PLAN_PLAN_JSON_H_

#include <string>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// One document; one line per worker, so that plans can be compared line by line.
std::string PlanToJson(const Plan& plan);

// Strict: an unknown key, a wrong type, a newer format number, a text cut off in the middle are
// kInvalidArgument, with the key, the value, the rule and a hint. Fills in defaults and step
// actions. Legality is not checked here (Validate).
StatusOr<Plan> PlanFromJson(std::string_view json);

// The same from and to a file; errors name the path. Writing is a temporary file and a rename.
StatusOr<Plan> ReadPlanFile(const std::string& path);
Status WritePlanFile(const Plan& plan, const std::string& path);

}  // namespace recycle

#endif  // RECYCLE_PLAN_PLAN_JSON_H_
