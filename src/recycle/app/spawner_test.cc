#include "recycle/app/spawner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace recycle {
namespace {

constexpr WorkerId kFirst{PipelineId(0), StageId(0)};
constexpr WorkerId kSecond{PipelineId(2), StageId(1)};
constexpr WorkerId kMover{PipelineId(1), StageId(1)};

// A spawner in a process of its own. Its executors wait for a signal, except worker 0:0, which
// leaves with 75 at once, and worker 1:1, which becomes worker 2:1.
class RunningSpawner {
 public:
  RunningSpawner() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // executors that lose their spawner can be waited for here
    EXPECT_EQ(pipe2(commands_, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(reports_, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(running_, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(commands_[1]);
      close(reports_[0]);
      _exit(RunSpawner({.command_fd = commands_[0], .report_fd = reports_[1]},
                       [this](WorkerId worker) -> PlaceEnd {
                         if (worker == kFirst) return {.exit_code = 75, .next = {}};
                         if (worker == kMover) return {.next = kSecond};
                         WriteAll(running_[1], "r");
                         pause();
                         return {};
                       }));
    }
    close(commands_[0]);
    close(reports_[1]);
  }
  ~RunningSpawner() {
    CloseCommands();
    close(reports_[0]);
    close(running_[0]);
    close(running_[1]);
  }

  pid_t pid() const { return pid_; }
  void Start(WorkerId worker) { WriteAll(commands_[1], "start " + ToString(worker) + "\n"); }
  void Restart(WorkerId worker) { WriteAll(commands_[1], "restart " + ToString(worker) + "\n"); }
  void CloseCommands() {
    if (commands_[1] >= 0) close(commands_[1]);
    commands_[1] = -1;
  }

  // Starts `worker` and returns its process once it runs.
  pid_t StartAndAwait(WorkerId worker) {
    Start(worker);
    const pid_t pid = Next().pid;
    char byte = 0;
    EXPECT_EQ(read(running_[0], &byte, 1), 1);
    return pid;
  }

  // The next report; blocks for it.
  SpawnerReport Next() {
    while (pending_.empty()) {
      char buffer[256];
      const ssize_t count = read(reports_[0], buffer, sizeof(buffer));
      EXPECT_GT(count, 0) << "the spawner is gone";
      if (count <= 0) return {};
      lines_.Feed({buffer, static_cast<std::size_t>(count)},
                  [this](const std::string& line) { pending_.push_back(line); });
    }
    const StatusOr<SpawnerReport> report = ParseSpawnerReport(pending_.front());
    pending_.erase(pending_.begin());
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }

 private:
  int commands_[2];
  int reports_[2];
  int running_[2];
  pid_t pid_ = 0;
  LineSplitter lines_;
  std::vector<std::string> pending_;
};

int WaitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(Spawner, ReportsStartsAndHowProcessesEnd) {
  RunningSpawner spawner;
  spawner.Start(kFirst);
  const SpawnerReport started = spawner.Next();
  EXPECT_EQ(started.worker, kFirst);
  EXPECT_FALSE(started.wait_status.has_value());
  const SpawnerReport exited = spawner.Next();
  EXPECT_EQ(exited.pid, started.pid);
  ASSERT_TRUE(exited.wait_status && WIFEXITED(*exited.wait_status));
  EXPECT_EQ(WEXITSTATUS(*exited.wait_status), 75);

  kill(spawner.StartAndAwait(kSecond), SIGKILL);
  const SpawnerReport killed = spawner.Next();
  EXPECT_EQ(killed.worker, kSecond);
  ASSERT_TRUE(killed.wait_status && WIFSIGNALED(*killed.wait_status));
  EXPECT_EQ(WTERMSIG(*killed.wait_status), SIGKILL);

  spawner.CloseCommands();
  EXPECT_EQ(WaitFor(spawner.pid()), 0);
}

TEST(Spawner, ARestartEndsTheOldProcessAndAStartLeavesItAlone) {
  RunningSpawner spawner;
  const pid_t old = spawner.StartAndAwait(kSecond);
  spawner.Start(kSecond);  // it runs
  kill(old, SIGSTOP);
  spawner.Restart(kSecond);
  const SpawnerReport ended = spawner.Next();
  EXPECT_EQ(ended.pid, old);
  ASSERT_TRUE(ended.wait_status && WIFSIGNALED(*ended.wait_status));
  const SpawnerReport started = spawner.Next();
  EXPECT_EQ(started.worker, kSecond);
  EXPECT_NE(started.pid, old);
  spawner.CloseCommands();
  EXPECT_EQ(WaitFor(spawner.pid()), 0);
}

TEST(Spawner, AProcessThatTakesAnotherPlaceIsThatPlacesFromThenOn) {
  RunningSpawner spawner;
  const pid_t mover = spawner.StartAndAwait(kMover);
  const SpawnerReport moved = spawner.Next();
  EXPECT_EQ(moved.worker, kSecond);
  EXPECT_EQ(moved.pid, mover);
  EXPECT_FALSE(moved.wait_status.has_value());
  spawner.Start(kSecond);  // it runs
  kill(mover, SIGKILL);
  const SpawnerReport ended = spawner.Next();
  EXPECT_EQ(ended.worker, kSecond);
  EXPECT_EQ(ended.pid, mover);
  spawner.CloseCommands();
  EXPECT_EQ(WaitFor(spawner.pid()), 0);
}

TEST(Spawner, AKilledSpawnerTakesEvenFrozenExecutorsWithIt) {
  RunningSpawner spawner;
  const pid_t executor = spawner.StartAndAwait(kSecond);
  kill(executor, SIGSTOP);
  kill(spawner.pid(), SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(WaitFor(spawner.pid())));
  const int status = WaitFor(executor);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(Spawner, AClosedCommandPipeEndsTheExecutors) {
  RunningSpawner spawner;
  const pid_t executor = spawner.StartAndAwait(kSecond);
  spawner.CloseCommands();
  EXPECT_EQ(WaitFor(spawner.pid()), 0);
  EXPECT_EQ(kill(executor, 0), -1) << "still there";
}

TEST(SpawnerReport, WhatIsPrintedParsesAndNothingElse) {
  for (const SpawnerReport& report :
       {SpawnerReport{kSecond, 42, std::nullopt}, SpawnerReport{kFirst, 7, 256}}) {
    std::string text = ToString(report);
    text.pop_back();
    EXPECT_EQ(*ParseSpawnerReport(text), report);
  }
  for (const char* bad : {"", "started 1:0", "exited 1:0 5", "began 1:0 5", "started x 5"}) {
    EXPECT_FALSE(ParseSpawnerReport(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace recycle
