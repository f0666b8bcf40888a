// The loaded parent that executors are forked from: `recycle-executor spawn`.
//
// Loading libtorch costs a third of a second and 150 MB; a fork of a process that has done it costs
// milliseconds and 2 MB. So one process per agent loads it, runs one operation to warm up, and then
// forks an executor for every place its agent names. It has one thread for ever (gRPC, gloo and
// libtorch's pools are first touched after the fork).
//
// It talks to its agent in lines: "start 1:0" comes in (nothing if it runs), or "restart 1:0" (its
// process, if there is one, is killed first); "started 1:0 PID" and, after waitpid,
// "exited 1:0 PID STATUS" go out. When the agent ends, the kernel ends the spawner and so its
// executors. A process that takes another place tells the spawner, which reports it as started
// there: from then on it is that place's.
//
//   SpawnerOptions options{.command_fd = 3, .report_fd = 4};
//   return RunSpawner(options, [](WorkerId worker) { return RunOneExecutor(worker); });
#ifndef RECYCLE_APP_SPAWNER_H_
#define RECYCLE_APP_SPAWNER_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"

namespace recycle {

struct SpawnerOptions {
  int command_fd = -1;  // lines from the agent; end of file ends the spawner
  int report_fd = -1;   // lines to the agent
};

// How an executor's life at a place ended.
struct PlaceEnd {
  int exit_code = 0;             // of its process,
  std::optional<WorkerId> next;  // unless it takes this place
};

// Serves the agent until its command stream ends, then kills the executors that are left and
// returns exit code 0. `executor` runs in the forked child, once for every place that it takes.
int RunSpawner(const SpawnerOptions& options, const std::function<PlaceEnd(WorkerId)>& executor);

// What a spawner reports.
struct SpawnerReport {
  WorkerId worker;
  pid_t pid = 0;
  std::optional<int> wait_status;  // absent: it started
  bool operator==(const SpawnerReport&) const = default;
};
std::string ToString(const SpawnerReport& report);
// Error: kInvalidArgument naming the line.
StatusOr<SpawnerReport> ParseSpawnerReport(std::string_view line);

// Takes whole lines out of a byte stream.
class LineSplitter {
 public:
  // Calls `on_line` for every line that `bytes` completes, without its newline.
  void Feed(std::string_view bytes, const std::function<void(const std::string&)>& on_line);

 private:
  std::string rest_;
};

// Writes all of `text`; false if the reader is gone. For pipes between processes of one job.
bool WriteAll(int descriptor, std::string_view text);

}  // namespace recycle

#endif  // RECYCLE_APP_SPAWNER_H_
