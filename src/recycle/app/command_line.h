// The command line of `recycle`: what may be typed, and which function does it.
//
// Bad usage is exit code 2 and one sentence that names the word, the rule and the nearest valid
// choice.
#ifndef RECYCLE_APP_COMMAND_LINE_H_
#define RECYCLE_APP_COMMAND_LINE_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "recycle/app/chaos_command.h"
#include "recycle/app/commands.h"
#include "recycle/app/profile_command.h"

namespace recycle {

// The commands that start or reach processes. Handed in, so that the command line is tested without
// any; recycle_main.cc gives the real ones.
struct CommandHandlers {
  std::function<int(const TrainArguments&)> train;
  std::function<int(const ProfileArguments&)> profile;
  std::function<int(const StatusArguments&)> status;
  std::function<int(const PlaceArguments&)> join;
  std::function<int(const PlaceArguments&)> drain;
  std::function<int(const ChaosArguments&)> chaos;
  std::function<int(const CoordinatorArguments&)> coordinator;
  std::function<int(const AgentArguments&)> agent;
  std::function<int(const ExecutorArguments&)> executor;
};

// Runs `arguments` (without the program's own name) and returns the exit code. plan, check and
// config print to `out`; errors go to `err`.
int RunCommandLine(const std::vector<std::string>& arguments, const CommandHandlers& handlers,
                   std::ostream& out, std::ostream& err);

}  // namespace recycle

#endif  // RECYCLE_APP_COMMAND_LINE_H_
