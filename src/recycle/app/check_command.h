// `recycle check plan.json`: proves a plan legal and recomputes its figures.
#ifndef RECYCLE_APP_CHECK_COMMAND_H_
#define RECYCLE_APP_CHECK_COMMAND_H_

#include <ostream>
#include <string>

#include "recycle/base/exit_code.h"
#include "recycle/base/status.h"

namespace recycle {

struct CheckArguments {
  std::string plan_file;
  bool json = false;
  bool operator==(const CheckArguments&) const = default;
};

// kDone for a legal plan whose stated figures are right, kNo with the reasons printed otherwise.
// Error: the file is not a plan (unreadable, syntax, unknown key, version).
StatusOr<ExitCode> RunCheckCommand(const CheckArguments& arguments, std::ostream& out);

}  // namespace recycle

#endif  // RECYCLE_APP_CHECK_COMMAND_H_
