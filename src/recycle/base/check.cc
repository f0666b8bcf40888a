#include "recycle/base/check.h"

#include <unistd.h>

#include <cstring>
#include <string>

#include "recycle/base/exit_code.h"

namespace recycle::internal {

CheckFailure::CheckFailure(const char* condition, const char* file, int line) {
  stream_ << "bug: RC_CHECK(" << condition << ") failed at " << file << ":" << line << ": ";
}

CheckFailure::~CheckFailure() {
  stream_ << "\n";
  const std::string text = stream_.str();
  // write(2) alone: no lock of the process can be trusted here.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  _exit(static_cast<int>(ExitCode::kBug));
}

}  // namespace recycle::internal
