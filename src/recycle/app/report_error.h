// From a Status to what a user sees: one sentence on standard error and an exit code.
#ifndef RECYCLE_APP_REPORT_ERROR_H_
#define RECYCLE_APP_REPORT_ERROR_H_

#include <iostream>

#include "recycle/base/exit_code.h"
#include "recycle/base/status.h"

namespace recycle {

// The exit code that `status` stands for: 0 if OK; 1 where the answer is no (kFailedPrecondition);
// 4 where somebody could not be reached (kUnavailable, kDeadlineExceeded); 70 for kInternal; 2 for
// everything else, which is bad usage or configuration.
ExitCode ExitCodeOf(const Status& status);

// Prints "recycle: <message>" to `err`, on one line, unless `status` is OK; returns its exit code.
int ReportError(const Status& status, std::ostream& err = std::cerr);

}  // namespace recycle

#endif  // RECYCLE_APP_REPORT_ERROR_H_
