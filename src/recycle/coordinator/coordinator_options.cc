#include "recycle/coordinator/coordinator_options.h"

#include <fmt/format.h>

namespace recycle {

Status CoordinatorOptions::Validate() const {
  const auto at_least_one = [](const char* name, int value) {
    if (value >= 1) return OkStatus();
    return absl::InvalidArgumentError(fmt::format("{} is {}; it must be at least 1", name, value));
  };
  RC_RETURN_IF_ERROR(at_least_one("parallel.data", parallel.data));
  RC_RETURN_IF_ERROR(at_least_one("parallel.pipeline", parallel.pipeline));
  RC_RETURN_IF_ERROR(at_least_one("micro_batches", micro_batches));
  RC_RETURN_IF_ERROR(at_least_one("iterations", iterations));
  const auto positive = [](const char* name, Duration value) {
    if (value > Duration::zero()) return OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{} is {} ms; it must be above 0", name, ToMilliseconds(value)));
  };
  RC_RETURN_IF_ERROR(positive("failure_timeout", failure_timeout));
  RC_RETURN_IF_ERROR(positive("ask_timeout", ask_timeout));
  RC_RETURN_IF_ERROR(positive("join_timeout", join_timeout));
  RC_RETURN_IF_ERROR(positive("link_fault_window", link_fault_window));
  if (ask_timeout >= failure_timeout) {
    return absl::InvalidArgumentError(
        fmt::format("ask_timeout is {} ms and failure_timeout {} ms; an answer must be due before "
                    "silence counts"
                    " as death",
                    ToMilliseconds(ask_timeout), ToMilliseconds(failure_timeout)));
  }
  if (link_faults_allowed < 0) {
    return absl::InvalidArgumentError(
        fmt::format("link_faults_allowed is {}; it must be at least 0", link_faults_allowed));
  }
  return OkStatus();
}

}  // namespace recycle
