#include "recycle/data/bible_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "recycle/data/file_io.h"

namespace recycle {
namespace {

// What a program prints to standard output, and its wait status.
struct ProgramOutput {
  std::string text;
  int wait_status = 0;
};

// Runs `program`, found on PATH, without input, and waits for its end. Errors: the operating
// system's.
StatusOr<ProgramOutput> RunProgram(std::string program, std::vector<std::string> arguments) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return ErrnoStatus("making a pipe to", program);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error != 0) {
    close(pipe_ends[0]);
    return absl::ErrnoToStatus(error, "running " + program);
  }
  StatusOr<std::string> text = ReadAll(pipe_ends[0], program);
  close(pipe_ends[0]);
  ProgramOutput output;
  while (waitpid(child, &output.wait_status, 0) < 0 && errno == EINTR) {
  }
  RC_RETURN_IF_ERROR(text.status());
  output.text = *std::move(text);
  return output;
}

// A line is "Ge1:1 In the beginning ...": drops the label.
std::string StripLabels(std::string_view labelled) {
  std::string text;
  text.reserve(labelled.size());
  while (!labelled.empty()) {
    const std::size_t end = std::min(labelled.find('\n'), labelled.size());
    const std::string_view line = labelled.substr(0, end);
    labelled.remove_prefix(std::min(end + 1, labelled.size()));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    text.append(line.substr(space + 1)).push_back('\n');
  }
  return text;
}

}  // namespace

StatusOr<std::string> ReadBibleText(const std::string& program) {
  const StatusOr<ProgramOutput> output = RunProgram(program, {"-f", "gen1:1-rev22:21"});
  if (output.ok() && output->wait_status == 0) {
    std::string text = StripLabels(output->text);
    if (!text.empty()) return text;
  }
  return absl::NotFoundError(fmt::format(
      "data.text is {}: the program `{}` did not print the text; install it by `apt-get "
      "install bible-kjv bible-kjv-text`, or set data.text to a file of your own",
      kBibleText, program));
}

}  // namespace recycle
