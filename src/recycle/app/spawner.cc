#include "recycle/app/spawner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "recycle/app/child_process.h"
#include "recycle/base/check.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

constexpr std::string_view kStart = "start ";
constexpr std::string_view kRestart = "restart ";

class Spawner {
 public:
  Spawner(const SpawnerOptions& options, const std::function<PlaceEnd(WorkerId)>& executor)
      : options_(options), executor_(executor) {}

  int Run();

 private:
  void Command(const std::string& line);
  void Start(WorkerId worker);
  void Restart(WorkerId worker);
  // The forked child: lives at `worker`, and at every place that it takes after it.
  [[noreturn]] void LiveAt(WorkerId worker);
  void NoteMoves();
  void Reap();

  const SpawnerOptions options_;
  const std::function<PlaceEnd(WorkerId)>& executor_;
  int child_signals_ = -1;   // signalfd of SIGCHLD
  int moves_[2] = {-1, -1};  // a pipe: children say "PID 2:1" when they take another place
  LineSplitter moved_;
  std::map<pid_t, WorkerId> running_;
  std::set<WorkerId> restarting_;  // to be started when the process that has the place is gone
};

int Spawner::Run() {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, nullptr);
  child_signals_ = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  RC_CHECK(child_signals_ >= 0) << "signalfd: errno " << errno;
  RC_CHECK(pipe2(moves_, O_CLOEXEC) == 0) << "a pipe for the executors: errno " << errno;
  LineSplitter lines;
  for (bool open = true; open;) {
    pollfd ready[] = {
        {options_.command_fd, POLLIN, 0}, {moves_[0], POLLIN, 0}, {child_signals_, POLLIN, 0}};
    if (poll(ready, 3, -1) < 0) continue;
    // First: a child that has moved may have died at its new place.
    if (ready[1].revents != 0) NoteMoves();
    if (ready[2].revents != 0) Reap();
    if (ready[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t count = read(options_.command_fd, buffer, sizeof(buffer));
    if (count > 0) {
      lines.Feed({buffer, static_cast<std::size_t>(count)},
                 [this](const std::string& line) { Command(line); });
    }
    open = count > 0 || (count < 0 && errno == EINTR);
  }
  for (const auto& [pid, worker] : running_) kill(pid, SIGKILL);
  while (!running_.empty() && wait(nullptr) > 0) {
  }
  return 0;
}

void Spawner::Command(const std::string& line) {
  const bool is_restart = line.starts_with(kRestart);
  RC_CHECK(is_restart || line.starts_with(kStart)) << "the agent said '" << line << "'";
  const StatusOr<WorkerId> worker =
      ParseWorkerId(line.substr((is_restart ? kRestart : kStart).size()));
  RC_CHECK(worker.ok()) << worker.status().message();
  if (is_restart) {
    Restart(*worker);
  } else {
    Start(*worker);
  }
}

void Spawner::Restart(WorkerId worker) {
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [worker](const auto& entry) { return entry.second == worker; });
  if (running == running_.end()) return Start(worker);
  restarting_.insert(worker);
  kill(running->first, SIGKILL);
}

void Spawner::Start(WorkerId worker) {
  const bool runs = std::any_of(running_.begin(), running_.end(),
                                [worker](const auto& entry) { return entry.second == worker; });
  if (runs) return;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    DieWithParent(parent);
    ResetSignals();
    close(options_.command_fd);
    close(options_.report_fd);
    close(child_signals_);
    close(moves_[0]);
    LiveAt(worker);
  }
  RC_CHECK(pid > 0) << "fork for executor " << worker << ": errno " << errno;
  running_.emplace(pid, worker);
  WriteAll(options_.report_fd, ToString(SpawnerReport{worker, pid, std::nullopt}));
}

void Spawner::LiveAt(WorkerId worker) {
  for (;;) {
    const PlaceEnd end = executor_(worker);
    if (!end.next) _exit(end.exit_code);  // no destructors of libtorch's statics: they take long
    worker = *end.next;
    WriteAll(moves_[1], fmt::format("{} {}\n", getpid(), ToString(worker)));
  }
}

void Spawner::NoteMoves() {
  char buffer[4096];
  const ssize_t count = read(moves_[0], buffer, sizeof(buffer));
  if (count <= 0) return;
  moved_.Feed({buffer, static_cast<std::size_t>(count)}, [this](const std::string& line) {
    std::istringstream words(line);
    pid_t pid = 0;
    std::string place;
    words >> pid >> place;
    const StatusOr<WorkerId> worker = ParseWorkerId(place);
    RC_CHECK(worker.ok()) << "an executor said '" << line << "'";
    const auto found = running_.find(pid);
    if (found == running_.end()) return;  // it has died since
    found->second = *worker;
    WriteAll(options_.report_fd, ToString(SpawnerReport{*worker, pid, std::nullopt}));
  });
}

void Spawner::Reap() {
  signalfd_siginfo info;
  while (read(child_signals_, &info, sizeof(info)) == sizeof(info)) {
  }
  int wait_status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto found = running_.find(pid);
    if (found == running_.end()) continue;
    WriteAll(options_.report_fd, ToString(SpawnerReport{found->second, pid, wait_status}));
    const WorkerId worker = found->second;
    running_.erase(found);
    if (restarting_.erase(worker) > 0) Start(worker);
  }
}

}  // namespace

int RunSpawner(const SpawnerOptions& options, const std::function<PlaceEnd(WorkerId)>& executor) {
  std::signal(SIGPIPE, SIG_IGN);
  return Spawner(options, executor).Run();
}

std::string ToString(const SpawnerReport& report) {
  const std::string worker = ToString(report.worker);
  if (!report.wait_status) return fmt::format("started {} {}\n", worker, report.pid);
  return fmt::format("exited {} {} {}\n", worker, report.pid, *report.wait_status);
}

StatusOr<SpawnerReport> ParseSpawnerReport(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string kind;
  std::string worker;
  SpawnerReport report;
  words >> kind >> worker >> report.pid;
  const StatusOr<WorkerId> parsed = ParseWorkerId(worker);
  int wait_status = 0;
  if (kind == "exited" && words >> wait_status) report.wait_status = wait_status;
  if (!words || !parsed.ok() || (kind != "started" && kind != "exited")) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no report of a spawner; expected 'started 1:0 PID' or 'exited 1:0 PID STATUS'",
        line));
  }
  report.worker = *parsed;
  return report;
}

void LineSplitter::Feed(std::string_view bytes,
                        const std::function<void(const std::string&)>& on_line) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    on_line(rest_.substr(begin, end - begin));
  }
  rest_.erase(0, begin);
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace recycle
