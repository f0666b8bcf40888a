// The options of `recycle simulate`, as the command line has them.
#ifndef RECYCLE_APP_SIMULATE_OPTIONS_H_
#define RECYCLE_APP_SIMULATE_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "recycle/app/simulate_arguments.h"

namespace recycle {

// Adds them to `command`; parsing fills `arguments`, which must outlive it.
void AddSimulateOptions(CLI::App& command, SimulateArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATE_OPTIONS_H_
