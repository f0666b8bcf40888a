#include "recycle/app/report_error.h"

#include <fmt/format.h>

#include <string>

namespace recycle {
namespace {

// Messages quote what a user gave, which may hold anything: control characters would break the
// sentence into lines or talk to the terminal.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

ExitCode ExitCodeOf(const Status& status) {
  if (status.ok()) return ExitCode::kDone;
  if (absl::IsFailedPrecondition(status)) return ExitCode::kNo;
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    return ExitCode::kUnreachable;
  }
  if (absl::IsInternal(status)) return ExitCode::kBug;
  return ExitCode::kUsage;
}

int ReportError(const Status& status, std::ostream& err) {
  if (!status.ok()) err << "recycle: " << OneLine(std::string(status.message())) << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace recycle
