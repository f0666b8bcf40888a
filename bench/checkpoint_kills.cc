// A job with checkpoints is killed, all of it, at random times, and resumed each time: is there
// always a complete checkpoint, does `latest` name one, and how much is lost?
//
//   build/dev/bench/checkpoint_kills [KILLS [SEED]]        (default 200 kills)
//
// A kill is SIGKILL of the launcher, with which everything ends. One in five comes while the job
// starts and loads, the others up to 1.5 s after its first iteration. Prints a line per kill: the
// last iteration in metrics.jsonl, the newest complete checkpoint, and the iterations and the time
// between them. Exit code 1 if anything is missing.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "job.h"
#include "recycle/base/prng.h"
#include "recycle/checkpoint/checkpoint_folder.h"

namespace recycle::testing {
namespace {

constexpr int kEvery = 5;

JobOptions MakeJob() {
  return {.data = 3,
          .pipeline = 2,
          .micro_batches = 4,
          .micro_batch_size = 2,
          .iterations = 1'000'000,
          .hidden = 64,
          .sequence = 64,
          .checkpoint_every = kEvery};
}

struct Figures {
  int kills_during_a_save = 0;
  int with_checkpoint = 0;
  std::vector<int> lost_iterations;
  std::vector<double> lost_ms;
};

// Waits for the moment of the kill, which the seed draws.
void AwaitKill(const Job& job, std::size_t lines_before, Prng& prng) {
  const bool early = prng.Below(5) == 0;
  const std::chrono::milliseconds delay(prng.Below(1500));
  if (!early) {
    Eventually(std::chrono::seconds(60),
               [&] { return job.Lines("metrics.jsonl").size() > lines_before; });
  }
  std::this_thread::sleep_for(delay);
}

// "" or what is wrong with what the kill has left behind.
std::string Examine(const Job& first, const CheckpointFolder& folder, Figures& figures,
                    std::string& line) {
  int newest = 0;
  bool unfinished = false;
  for (const CheckpointFolder::Entry& entry : folder.List()) {
    unfinished = unfinished || !entry.checkpoint.ok();
    if (!entry.checkpoint.ok()) continue;
    const Status verified = VerifyCheckpoint(*entry.checkpoint);
    if (!verified.ok()) return std::string(verified.message());
    newest = std::max(newest, entry.iteration);
  }
  figures.kills_during_a_save += unfinished ? 1 : 0;
  std::string latest;
  std::ifstream(folder.root() + "/latest") >> latest;
  if (!latest.empty() && !OpenCheckpoint(folder.root() + "/" + latest).ok()) {
    return "latest names " + latest + ", which is not complete";
  }
  if (figures.with_checkpoint > 0 && newest == 0) return "there was a checkpoint, and is none";
  if (newest == 0) return "";
  ++figures.with_checkpoint;
  int last = 0;
  std::map<int, double> iteration_ms;
  for (const nlohmann::json& metrics : first.Lines("metrics.jsonl")) {
    last = metrics.at("iteration");
    iteration_ms[last] = metrics.at("iteration_ms");
  }
  double lost_ms = 0;
  for (int iteration = newest + 1; iteration <= last; ++iteration) {
    lost_ms += iteration_ms[iteration];
  }
  figures.lost_iterations.push_back(std::max(0, last - newest));
  figures.lost_ms.push_back(lost_ms);
  line = fmt::format("last iteration {:5}, newest complete {:5}, lost {} iterations, {:.0f} ms{}",
                     last, newest, figures.lost_iterations.back(), lost_ms,
                     unfinished ? ", a save on its way" : "");
  return "";
}

template <typename Number>
Number Percentile(std::vector<Number> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  return values.at(rank);
}

// An interval of checkpoints and one iteration more.
int CountBeyondInterval(const Figures& figures) {
  return static_cast<int>(std::count_if(figures.lost_iterations.begin(),
                                        figures.lost_iterations.end(),
                                        [](int lost) { return lost > kEvery + 1; }));
}

int Run(int kills, std::uint64_t seed) {
  Prng prng(seed);
  Figures figures;
  const Job first(MakeJob());  // for its run folder
  const CheckpointFolder folder((first.run_folder() / "checkpoints").string());
  for (int number = 1; number <= kills; ++number) {
    JobOptions options = MakeJob();
    options.run_folder = first.run_folder();
    if (figures.with_checkpoint > 0) {
      options.arguments = {"--resume"};
    } else {
      std::filesystem::remove_all(first.run_folder());
    }
    Job job(options);
    const std::size_t lines_before = job.Lines("metrics.jsonl").size();
    job.Start();
    AwaitKill(job, lines_before, prng);
    const std::vector<ProcessIdentity> processes = Descendants(job.pid());
    kill(job.pid(), SIGKILL);
    const int code = job.Wait();
    Eventually(std::chrono::seconds(10),
               [&] { return std::none_of(processes.begin(), processes.end(), IsAlive); });
    std::string line = "no checkpoint yet";
    std::string problem = Examine(first, folder, figures, line);
    if (code != 128 + SIGKILL) problem = fmt::format("the job ended by itself with {}", code);
    fmt::print("{:4}  {}{}\n", number, line, problem.empty() ? "" : "  PROBLEM: " + problem);
    std::fflush(stdout);
    if (!problem.empty()) {
      fmt::print("{}\n", job.Output());
      return 1;
    }
  }
  fmt::print("\n{} kills of everything, seed {}, checkpoint every {} iterations\n", kills, seed,
             kEvery);
  fmt::print("a complete checkpoint after each ({} before there was one); {} fell into a save\n",
             kills - figures.with_checkpoint, figures.kills_during_a_save);
  fmt::print("lost                  p50      p90      max\n");
  fmt::print("iterations       {:8} {:8} {:8}\n", Percentile(figures.lost_iterations, 0.5),
             Percentile(figures.lost_iterations, 0.9), Percentile(figures.lost_iterations, 1.0));
  fmt::print("milliseconds     {:8.0f} {:8.0f} {:8.0f}\n", Percentile(figures.lost_ms, 0.5),
             Percentile(figures.lost_ms, 0.9), Percentile(figures.lost_ms, 1.0));
  fmt::print("more than the interval and one iteration: {}\n", CountBeyondInterval(figures));
  return 0;
}

}  // namespace
}  // namespace recycle::testing

int main(int argc, char** argv) {
  const int kills = argc > 1 ? std::atoi(argv[1]) : 200;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20261130;
  if (kills < 1) {
    fmt::print(stderr, "usage: checkpoint_kills [KILLS [SEED]]\n");
    return 2;
  }
  return recycle::testing::Run(kills, seed);
}
