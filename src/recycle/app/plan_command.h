// `recycle plan`: makes a plan, prints its figures, writes it and its pictures.
//
// The option names are a stable face: tests and scripts outside the repository call them
// (docs/CLI.md).
#ifndef RECYCLE_APP_PLAN_COMMAND_H_
#define RECYCLE_APP_PLAN_COMMAND_H_

#include <ostream>

#include "recycle/app/plan_request.h"
#include "recycle/base/status.h"

namespace recycle {

// The command, in all its forms. Errors: as PlanRequestOf and MakePlan; kPermissionDenied for a
// file that cannot be written.
Status RunPlanCommand(const PlanArguments& arguments, std::ostream& out);

}  // namespace recycle

#endif  // RECYCLE_APP_PLAN_COMMAND_H_
