// What protection costs while nothing fails: boundary log, ledger, commit round, heartbeats,
// snapshots and the comparison of states, all on against all off, in turn.
//
//   build/dev/bench/protection [ROUNDS [HIDDEN]]      (default 7 256)
//
// A job of 2 pipelines x 2 stages, 4 micro-batches of 512 tokens, every process its own; snapshots
// as often as resilience.snapshot_every = auto makes them. Prints the CPU time of all processes,
// the coordinator's included, for one iteration (the median over the rounds) and their ratio (the
// median of the rounds' ratios), against the limit of 1.01. Messages to the coordinator travel
// through sockets, not gRPC.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <vector>

#include "median.h"
#include "recycle/app/job_config.h"
#include "recycle/app/snapshot_budget.h"
#include "recycle/base/check.h"
#include "recycle/testing/forked_cluster.h"
#include "recycle/testing/small_job.h"
#include "verdict.h"

namespace recycle {
namespace {

constexpr double kLimit = 1.01;
constexpr int kWarmUp = 2;  // iterations
constexpr int kIterations = 12;
constexpr int kPipelines = 2;
constexpr int kStages = 2;
constexpr int kMicroBatches = 4;
constexpr int kBlocks = 4;

double CpuSeconds(clockid_t clock) {
  timespec now{};
  RC_CHECK(clock_gettime(clock, &now) == 0) << "no clock of a process that is there";
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double CpuSeconds(const std::map<WorkerId, pid_t>& pids) {
  double sum = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);  // the coordinator's
  for (const auto& [worker, pid] : pids) {
    clockid_t clock{};
    RC_CHECK(clock_getcpuclockid(pid, &clock) == 0) << ToString(worker) << " is gone";
    sum += CpuSeconds(clock);
  }
  return sum;
}

// As a job with this model and batch takes them by itself.
int SnapshotsByDefault(const ExecutorOptions& executor) {
  JobConfig config;
  config.parallel.data = kPipelines;
  config.parallel.pipeline = kStages;
  config.model.sequence = executor.model.sequence;
  config.batch.micro_batches = executor.micro_batches;
  config.batch.micro_batch_size = executor.micro_batch_size;
  return SnapshotEvery(config);
}

// Seconds of CPU time for an iteration.
double Run(int hidden, bool is_protected) {
  const TestFolder folder;
  SmallJob job;
  job.data = kPipelines;
  job.pipeline = kStages;
  job.micro_batches = kMicroBatches;
  job.blocks = kBlocks;
  ClusterOptions options = MakeCluster(job, folder.path());
  ExecutorOptions& executor = options.executor;
  executor.model.hidden = hidden;
  executor.model.heads = hidden / 64;
  executor.model.sequence = 128;
  executor.micro_batch_size = 4;
  executor.iterations = kIterations + 1;
  executor.heartbeat_interval = std::chrono::milliseconds(200);
  executor.snapshot_every = SnapshotsByDefault(executor);
  executor.compare_every = JobConfig().resilience.compare_every;
  options.limit = std::chrono::minutes(30);
  if (!is_protected) {
    executor.unprotected = true;
    executor.heartbeat_interval = std::chrono::hours(1);
    options.failure_timeout = std::chrono::hours(10);
    executor.snapshot_every = 0;
    executor.compare_every = 0;
  }
  double began = 0;
  double ended = 0;
  options.on_iteration = [&](int iteration, const std::map<WorkerId, pid_t>& pids) {
    if (iteration + 1 == kWarmUp) began = CpuSeconds(pids);
    if (iteration + 1 == kIterations) ended = CpuSeconds(pids);
  };
  const ClusterResult result = ForkedCluster(options).Run();
  RC_CHECK(result.end && result.end->how == EndJob::How::kDone) << "the job failed";
  return (ended - began) / (kIterations - kWarmUp);
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const int hidden = argc > 2 ? std::atoi(argv[2]) : 256;
  if (argc > 3 || rounds < 1 || hidden < 64 || hidden % 64 != 0) {
    fmt::print(stderr, "usage: protection [ROUNDS [HIDDEN]]; HIDDEN is a multiple of 64\n");
    return 2;
  }
  std::vector<double> on;
  std::vector<double> off;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    // Whoever runs second finds warm caches: each is it every other time.
    const bool on_first = round % 2 == 0;
    const double first = Run(hidden, on_first);
    const double second = Run(hidden, !on_first);
    on.push_back(on_first ? first : second);
    off.push_back(on_first ? second : first);
    ratios.push_back(on.back() / off.back());
    fmt::print("round {}: on {:.4f} s, off {:.4f} s, ratio {:.4f}\n", round + 1, on.back(),
               off.back(), ratios.back());
    std::fflush(stdout);
  }
  fmt::print("CPU time of an iteration, all processes: on {:.4f} s, off {:.4f} s\n", Median(on),
             Median(off));
  Verdicts verdicts;
  verdicts.AtMost("protection: CPU time on / off", Median(ratios), kLimit);
  verdicts.PrintTotal();
  return verdicts.misses() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) { return recycle::Main(argc, argv); }
