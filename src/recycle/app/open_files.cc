#include "recycle/app/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace recycle {
namespace {

// Logs, libraries, the store, gRPC's own; and for each worker a stream, or links in both
// directions.
constexpr rlim_t kOwn = 64;
constexpr rlim_t kPerWorker = 4;

}  // namespace

Status RaiseOpenFileLimit(int workers) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(fmt::format("getrlimit: {}", std::strerror(errno)));
  }
  const rlim_t needed = kOwn + kPerWorker * static_cast<rlim_t>(workers);
  if (limit.rlim_cur >= needed) return OkStatus();
  if (limit.rlim_max < needed) {
    return absl::InvalidArgumentError(
        fmt::format("a process may open {} files here, and a job of {} workers may need {}; raise "
                    "the limit (ulimit -n {})",
                    limit.rlim_max, workers, needed, needed));
  }
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(fmt::format("setrlimit: {}", std::strerror(errno)));
  }
  return OkStatus();
}

}  // namespace recycle
