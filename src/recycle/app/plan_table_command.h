// `recycle plan --all-failures N`: the plan table, made, printed, kept and proven.
#ifndef RECYCLE_APP_PLAN_TABLE_COMMAND_H_
#define RECYCLE_APP_PLAN_TABLE_COMMAND_H_

#include <ostream>

#include "recycle/app/plan_request.h"
#include "recycle/base/status.h"

namespace recycle {

// Prints a line per number of failures 0..N (a JSON object each with `json`), writes table.json to
// `out_dir`, and with `materialize` builds and checks every plan. Errors: as PlanTable::Make;
// kPermissionDenied for a folder that cannot be written.
Status RunPlanTableCommand(const PlanArguments& arguments, std::ostream& out);

}  // namespace recycle

#endif  // RECYCLE_APP_PLAN_TABLE_COMMAND_H_
