// Expected failures as values. Codes are gRPC's; a message has the value, the rule it broke and a
// hint what to do. Bugs are not expected failures: see base/check.h.
//
//   StatusOr<Plan> plan = ReadPlanFile(path);
//   if (!plan.ok()) return plan.status();
//
//   RC_ASSIGN_OR_RETURN(Plan plan, ReadPlanFile(path));
//   RC_RETURN_IF_ERROR(Validate(plan));
#ifndef RECYCLE_BASE_STATUS_H_
#define RECYCLE_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recycle {

using Status = absl::Status;
template <typename T>
using StatusOr = absl::StatusOr<T>;
using StatusCode = absl::StatusCode;

inline Status OkStatus() { return absl::OkStatus(); }

}  // namespace recycle

#define RC_RETURN_IF_ERROR(expression)                                                 \
  do {                                                                                 \
    if (::recycle::Status rc_status = (expression); !rc_status.ok()) return rc_status; \
  } while (false)

#define RC_STATUS_CONCAT_INNER(a, b) a##b
#define RC_STATUS_CONCAT(a, b) RC_STATUS_CONCAT_INNER(a, b)
#define RC_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  declaration = std::move(result).value()
#define RC_ASSIGN_OR_RETURN(declaration, expression) \
  RC_ASSIGN_OR_RETURN_INNER(RC_STATUS_CONCAT(rc_result_, __LINE__), declaration, expression)

#endif  // RECYCLE_BASE_STATUS_H_
