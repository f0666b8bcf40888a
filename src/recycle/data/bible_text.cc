#include "recycle/data/bible_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "recycle/data/file_io.h"

namespace recycle {
namespace {

// What a command prints to standard output, and its wait status.
struct CommandOutput {
  std::string text;
  int wait_status = 0;
};

StatusOr<CommandOutput> RunCommand(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return ErrnoStatus("running", command);
  CommandOutput output;
  std::array<char, 1 << 16> buffer;
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), got);
  }
  output.wait_status = pclose(pipe);
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
  const std::string command = program + " -f gen1:1-rev22:21 </dev/null 2>/dev/null";
  RC_ASSIGN_OR_RETURN(const CommandOutput output, RunCommand(command));
  std::string text = StripLabels(output.text);
  if (output.wait_status == 0 && !text.empty()) return text;
  return absl::NotFoundError(fmt::format(
      "data.text is {}: the program `{}` did not print the text; install it by `apt-get "
      "install bible-kjv bible-kjv-text`, or set data.text to a file of your own",
      kBibleText, program));
}

}  // namespace recycle
