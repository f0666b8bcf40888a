// The command line run within a test. Test-only.
#ifndef RECYCLE_APP_COMMAND_LINE_TESTING_H_
#define RECYCLE_APP_COMMAND_LINE_TESTING_H_

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "recycle/app/command_line.h"

namespace recycle::testing {

using Words = std::vector<std::string>;

struct CommandResult {
  int code = 0;
  std::string out;
  std::string err;
};

// What `recycle WORDS` does; without handlers for the commands that need none.
inline CommandResult RunWords(const Words& words, const CommandHandlers& handlers = {}) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = RunCommandLine(words, handlers, out, err);
  return {code, out.str(), err.str()};
}

// "" if the command was refused with code 2 and one line that has all of `parts`, else what it did.
inline std::string WhyNotRefused(const CommandResult& result, const Words& parts) {
  const bool refused = result.code == 2 && result.out.empty() &&
                       std::count(result.err.begin(), result.err.end(), '\n') == 1;
  const bool has_all = std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return result.err.find(part) != std::string::npos;
  });
  if (refused && has_all) return "";
  return "code " + std::to_string(result.code) + ": " + result.out + result.err;
}

}  // namespace recycle::testing

#endif  // RECYCLE_APP_COMMAND_LINE_TESTING_H_
