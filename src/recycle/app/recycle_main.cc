// recycle: train, plan, check, status, config. Links no libtorch, so it answers at once.
#include <iostream>
#include <string>
#include <vector>

#include "recycle/app/command_line.h"

int main(int argc, char** argv) {
  const recycle::CommandHandlers handlers{.train = recycle::RunTrain,
                                          .status = recycle::RunStatus,
                                          .coordinator = recycle::RunCoordinatorProcess,
                                          .agent = recycle::RunAgent,
                                          .executor = recycle::RunExecutorProcess};
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return recycle::RunCommandLine(arguments, handlers, std::cout, std::cerr);
}
