// `recycle join` and `recycle drain`: workers come back, or leave, while the job runs.
//
//   int code = RunDrain({.run_dir = "runs/one", .worker = "1:1"});
//
// Both print what they have to say and return an exit code.
#ifndef RECYCLE_APP_MEMBERSHIP_COMMANDS_H_
#define RECYCLE_APP_MEMBERSHIP_COMMANDS_H_

#include "recycle/app/commands.h"

namespace recycle {

// Becomes a worker of the job, at a place that has none, and returns only if that cannot be.
int RunJoin(const PlaceArguments& arguments);
// Returns when the worker has left.
int RunDrain(const PlaceArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_MEMBERSHIP_COMMANDS_H_
