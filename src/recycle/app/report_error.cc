#include "recycle/app/report_error.h"

namespace recycle {

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
  if (!status.ok()) err << "recycle: " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace recycle
