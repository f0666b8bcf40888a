// A job in miniature for tests: executors as real processes (forked), the real coordinator core in
// the calling thread, and between them a pair of sockets per executor that carries the real
// messages. No launcher, no agent process, no gRPC; the test process stays single-threaded, so it
// can fork.
//
//   ForkedCluster cluster(options);
//   const ClusterResult result = cluster.Run();
//   EXPECT_EQ(result.end.how, EndJob::How::kDone);
//
// Run once; whatever is left of the processes is killed at its end. Not thread-safe.
#ifndef RECYCLE_TESTING_FORKED_CLUSTER_H_
#define RECYCLE_TESTING_FORKED_CLUSTER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/executor/executor_options.h"

namespace recycle {

struct ClusterOptions {
  ExecutorOptions executor;  // of every worker, except for `worker` and `trace_file`
  MakePlanFunction make_plan;
  std::string folder;  // for logs ("executor-k-i.log") and traces ("trace-k-i.jsonl")
  Duration failure_timeout = std::chrono::seconds(2);
  Duration limit = std::chrono::seconds(60);  // a job that takes longer is killed and has no end
  // Called in the coordinator's place after each announced iteration, with the processes.
  std::function<void(int iteration, const std::map<WorkerId, pid_t>& pids)> on_iteration;
  std::optional<int> stop_after_iteration;  // SIGTERM at the launcher, after this one (0-based)
};

struct ClusterResult {
  std::optional<EndJob> end;  // absent: the limit was reached
  std::vector<AnnounceIteration> iterations;
  std::vector<AnnounceResumed> resumes;
  std::vector<AnnounceFault> faults;
  std::vector<AnnounceRollback> rollbacks;
  std::vector<Quantum> redone;
  std::vector<AnnounceSkippedStep> skipped_steps;
  std::vector<GenerationRecord> records;
  std::map<WorkerId, pid_t> pids;         // of those that ever said hello, the last
  std::map<WorkerId, int> wait_statuses;  // of those that ended by themselves
};

class ForkedCluster {
 public:
  explicit ForkedCluster(ClusterOptions options);
  ~ForkedCluster();
  ForkedCluster(const ForkedCluster&) = delete;
  ForkedCluster& operator=(const ForkedCluster&) = delete;

  ClusterResult Run();

  // The trace lines of `worker`, in the order of execution.
  std::vector<std::string> TraceLines(WorkerId worker) const;

 private:
  struct Process {
    pid_t pid = 0;
    int socket = -1;  // -1 once it is closed
  };

  std::string FileOf(const char* what, WorkerId worker, const char* suffix) const;
  void Start(WorkerId worker);
  [[noreturn]] void RunChild(WorkerId worker, int socket);
  void Step(const Event& event);
  void Handle(const Effect& effect);
  void Send(const SendTo& send);
  bool EndedWell() const;
  bool IsAnyAlive() const;
  void WaitForMessages();
  void Receive(WorkerId worker, Process& process);
  void Reap(WorkerId worker, Process& process);

  const ClusterOptions options_;
  Coordinator coordinator_;
  TimePoint deadline_;
  std::map<WorkerId, Process> processes_;
  std::queue<Event> events_;  // the running Step's first
  ClusterResult result_;
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_FORKED_CLUSTER_H_
