// Costs as JSON: the object `costs` of a plan file (docs/PLAN_FORMAT.md), and profile files, which
// hold the same object.
//
//   StatusOr<CostProfile> costs = ProfileFromJson(text);
//
// Strict, as plan_json.h: every error is kInvalidArgument with key, value and rule.
#ifndef RECYCLE_PLAN_COSTS_JSON_H_
#define RECYCLE_PLAN_COSTS_JSON_H_

#include <string>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/plan/costs.h"
#include "recycle/plan/json_fields.h"

namespace recycle {

std::string CostsToJson(const CostProfile& costs);

// Whether the costs make sense (deferred_bytes, capacities, ...) is not checked here: that depends
// on the job.
StatusOr<CostProfile> CostsFromJson(const JsonValue& value);

// A profile is a `costs` object with one entry per worker of a pipeline, or an object with such a
// member `costs`, like a plan file; its other members are not looked at.
StatusOr<CostProfile> ProfileFromJson(std::string_view json);

}  // namespace recycle

#endif  // RECYCLE_PLAN_COSTS_JSON_H_
