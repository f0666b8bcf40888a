// recycle: the program of every command. Links no libtorch, so it answers at once.
#include <iostream>
#include <string>
#include <vector>

#include "recycle/app/chaos_command.h"
#include "recycle/app/command_line.h"
#include "recycle/app/membership_commands.h"

int main(int argc, char** argv) {
  const recycle::CommandHandlers handlers{.train = recycle::RunTrain,
                                          .profile = recycle::RunProfile,
                                          .status = recycle::RunStatus,
                                          .join = recycle::RunJoin,
                                          .drain = recycle::RunDrain,
                                          .chaos = recycle::RunChaos,
                                          .coordinator = recycle::RunCoordinatorProcess,
                                          .agent = recycle::RunAgent,
                                          .executor = recycle::RunExecutorProcess};
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return recycle::RunCommandLine(arguments, handlers, std::cout, std::cerr);
}
