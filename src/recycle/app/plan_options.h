// The options of `recycle plan`, as the command line has them.
#ifndef RECYCLE_APP_PLAN_OPTIONS_H_
#define RECYCLE_APP_PLAN_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "recycle/app/plan_request.h"

namespace recycle {

// Adds them to `command`; parsing fills `arguments`, which must outlive it.
void AddPlanOptions(CLI::App& command, PlanArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_PLAN_OPTIONS_H_
