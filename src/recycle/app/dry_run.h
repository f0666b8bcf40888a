// `recycle train --dry-run`: memory per worker and the plan, without training.
#ifndef RECYCLE_APP_DRY_RUN_H_
#define RECYCLE_APP_DRY_RUN_H_

#include <string>

#include "recycle/app/job_config.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// The report as text for people, or as one JSON object. `plan` is the plan the job would start
// with.
StatusOr<std::string> DryRunReport(const JobConfig& config, const Plan& plan, bool json);

// The plan the job starts with: of the file `schedule.plan` names (checked to be legal and to fit
// the job), else of the planner.
StatusOr<Plan> FirstPlan(const JobConfig& config);

}  // namespace recycle

#endif  // RECYCLE_APP_DRY_RUN_H_
