// `recycle simulate`: what failures cost a job under every policy.
#ifndef RECYCLE_APP_SIMULATE_COMMAND_H_
#define RECYCLE_APP_SIMULATE_COMMAND_H_

#include <ostream>

#include "recycle/app/simulate_arguments.h"
#include "recycle/base/status.h"

namespace recycle {

// Prints the table, or one JSON object, and writes the files that are asked for. Errors:
// MakeSimulationSetup's, the planner's, and those of writing.
Status RunSimulateCommand(const SimulateArguments& arguments, std::ostream& out);

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATE_COMMAND_H_
