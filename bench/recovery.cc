// How fast a SIGKILL is noticed, decided, told and survived: real jobs of 6, 12 and 24 executors
// under full load, one worker killed in each.
//
//   build/dev/bench/recovery [TRIALS [EXECUTORS [etcd]]]     (default 100 trials of each size)
//
// With "etcd" every trial runs twice, one after the other: with the store in a file, and in an etcd
// of one member on loopback (Debian's package etcd-server); the last line compares them.
//
// Prints a line per trial and the percentiles: kill -> noticed (first sign at the coordinator) ->
// stored (the decision is durable) -> told (Prepare is out) -> acting (first action of the new
// generation). The kill's time is the injector's own stamp on the machine's monotonic clock.
// Beside it what a job without recovery does: everything is killed and started again from its last
// checkpoint; the time from the new command to its first action, and the iterations done again.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "job.h"
#include "recycle/base/prng.h"
#include "recycle/testing/etcd_server.h"

namespace recycle::testing {
namespace {

struct Shape {
  int data = 1;
  int pipeline = 1;
  int executors() const { return data * pipeline; }
};
constexpr Shape kShapes[] = {{3, 2}, {4, 3}, {6, 4}};

// Of the jobs that are started again.
constexpr int kRestarts = 5;
constexpr int kCheckpointEvery = 4;

struct Series {
  const char* name;
  std::vector<double> milliseconds = {};
};

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  return values.at(rank);
}

std::string DrawFault(Prng& prng, const Shape& shape) {
  static const char* const kPoints[] = {"F", "I", "W", "send", "all-reduce", "step"};
  return fmt::format("kill {}:{} at {} of iteration {}", prng.Below(shape.data),
                     prng.Below(shape.pipeline), kPoints[prng.Below(std::size(kPoints))],
                     3 + prng.Below(3));
}

JobOptions MakeJob(const Shape& shape, const std::string& fault, const std::string& store) {
  return {.data = shape.data,
          .pipeline = shape.pipeline,
          .micro_batches = 4,
          .micro_batch_size = 2,
          .iterations = 8,
          .hidden = 64,
          .sequence = 64,
          .inject = {fault},
          .arguments = {"--set", "resilience.store=" + store}};
}

// What was measured with one store.
struct Figures {
  std::string store;
  Series noticed{"kill -> noticed"};
  Series stored{"kill -> stored"};
  Series told{"kill -> told"};
  Series acting{"stored -> acting"};
};

bool RunTrial(int trial, const Shape& shape, const std::string& fault, Figures& figures) {
  Job job(MakeJob(shape, fault, figures.store));
  job.Start();
  if (const int code = job.Wait(); code != 0) {
    fmt::print("trial {}: '{}' ended with {}:\n{}\n", trial, fault, code, job.Output());
    return false;
  }
  const nlohmann::json failure = job.Events("failure_detected").at(0);
  const nlohmann::json resumed = job.Events("resumed").at(1);
  const auto add = [](Series& series, double milliseconds) {
    series.milliseconds.push_back(milliseconds);
    return milliseconds;
  };
  fmt::print(
      "{:3} {:45} cause {:8} noticed {:6.1f}  stored {:6.1f}  told {:6.1f}  acting +{:6.1f} ms  "
      "replayed {:3} rerouted {:3} regenerated {:2}  {}\n",
      trial, fault, failure.at("cause").get<std::string>(),
      add(figures.noticed, failure.at("signal_ms")), add(figures.stored, failure.at("stored_ms")),
      add(figures.told, failure.at("told_ms")), add(figures.acting, resumed.at("resume_ms")),
      resumed.at("replayed_actions").get<int>(), resumed.at("rerouted_actions").get<int>(),
      resumed.at("regenerated_actions").get<int>(), figures.store);
  return true;
}

void PrintFigures(const Shape& shape, int trials, const Figures& figures) {
  fmt::print("\n{} executors, {} trials, ms      p50      p90      p99      max   {}\n",
             shape.executors(), trials, figures.store);
  for (const Series& series : {figures.noticed, figures.stored, figures.told, figures.acting}) {
    fmt::print("{:24} {:12.1f} {:8.1f} {:8.1f} {:8.1f}\n", series.name,
               Percentile(series.milliseconds, 0.5), Percentile(series.milliseconds, 0.9),
               Percentile(series.milliseconds, 0.99), Percentile(series.milliseconds, 1.0));
  }
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The whole job is killed and started again from its last checkpoint.
bool RunRestart(const Shape& shape, Series& restart, std::vector<double>& repeated) {
  JobOptions options = MakeJob(shape, "", "embedded");
  options.inject.clear();
  options.iterations = 1'000'000;
  options.checkpoint_every = kCheckpointEvery;
  Job killed(options);
  killed.Start();
  const bool trained =
      killed.AwaitEvents("checkpoint", 1) && killed.AwaitIteration(2 * kCheckpointEvery - 1);
  kill(killed.pid(), SIGKILL);
  killed.Wait();
  options.run_folder = killed.run_folder();
  options.arguments.emplace_back("--resume");
  Job restarted(options);
  const std::size_t earlier = restarted.Events("resumed").size();
  const int done = killed.Lines("metrics.jsonl").back().at("iteration");
  const double began = UnixSeconds();
  restarted.Start();
  const bool acts = trained && restarted.AwaitEvents("resumed", earlier + 1);
  if (acts) {
    const nlohmann::json resumed = restarted.Events("resumed").back();
    restart.milliseconds.push_back((resumed.at("time").get<double>() - began) * 1e3);
    repeated.push_back(done + 1 - resumed.at("iteration").get<int>());
  } else {
    fmt::print("a restart failed:\n{}\n{}\n", killed.Output(), restarted.Output());
  }
  kill(restarted.pid(), SIGTERM);
  restarted.Wait();
  return acts;
}

bool RunTrials(const Shape& shape, int trials, const std::vector<std::string>& stores) {
  std::vector<Figures> all;
  all.reserve(stores.size());
  for (const std::string& store : stores) all.push_back({.store = store});
  Prng prng(11);
  for (int trial = 1; trial <= trials; ++trial) {
    const std::string fault = DrawFault(prng, shape);
    for (Figures& figures : all) {
      if (!RunTrial(trial, shape, fault, figures)) return false;
    }
  }
  for (const Figures& figures : all) PrintFigures(shape, trials, figures);
  if (all.size() == 2) {
    const auto extra = [&](double share) {
      return Percentile(all[1].told.milliseconds, share) -
             Percentile(all[0].told.milliseconds, share);
    };
    fmt::print("etcd instead of a file, kill -> told: {:+.1f} ms at p50, {:+.1f} ms at p99\n",
               extra(0.5), extra(0.99));
  }
  Series restart{"new command -> acting"};
  std::vector<double> repeated;
  for (int i = 0; i < kRestarts; ++i) {
    if (!RunRestart(shape, restart, repeated)) return false;
  }
  fmt::print(
      "the whole job started again from its last checkpoint (every {}), {} times: acting after "
      "{:.0f} ms at p50, {:.0f} ms at most; {:.0f} iterations again at p50\n\n",
      kCheckpointEvery, kRestarts, Percentile(restart.milliseconds, 0.5),
      Percentile(restart.milliseconds, 1.0), Percentile(repeated, 0.5));
  return true;
}

int Run(int trials, int executors, const std::vector<std::string>& stores) {
  bool found = false;
  for (const Shape& shape : kShapes) {
    if (executors != 0 && executors != shape.executors()) continue;
    found = true;
    if (!RunTrials(shape, trials, stores)) return 1;
  }
  if (!found) fmt::print("no shape of {} executors: 6, 12 or 24\n", executors);
  return found ? 0 : 2;
}

// With an etcd for the time of the trials.
int RunWithEtcd(int trials, int executors) {
  if (!EtcdServer::IsInstalled()) {
    fmt::print("{}\n", EtcdServer::kMissing);
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "recycle-etcd-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  int code = 0;
  {
    const EtcdServer server(folder);
    code = Run(trials, executors, {"embedded", "etcd://" + server.endpoint()});
  }
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace recycle::testing

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 100;
  const int executors = argc > 2 ? std::atoi(argv[2]) : 0;
  if (argc > 3 && std::string(argv[3]) == "etcd") {
    return recycle::testing::RunWithEtcd(trials, executors);
  }
  return recycle::testing::Run(trials, executors, {"embedded"});
}
