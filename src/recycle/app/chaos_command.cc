#include "recycle/app/chaos_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>
#include <utility>

#include "recycle/app/chaos_sequence.h"
#include "recycle/app/chaos_verdict.h"
#include "recycle/app/child_process.h"
#include "recycle/app/event_writer.h"
#include "recycle/app/job_config.h"
#include "recycle/app/report_error.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/base/exit_code.h"

namespace recycle {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kChildPollInterval{10};
constexpr std::chrono::seconds kOrphanPatience{5};
// A run may take this long, and this many times as long as the unharmed one.
constexpr Seconds kRunPatience{60};
constexpr double kRunPatienceFactor = 5;
// Runs without a single trial that counts, in a row, before the command gives up.
constexpr int kVoidRuns = 3;

struct RunResult {
  ChaosEvidence evidence;
  int wait_status = 0;
  bool hung = false;
  bool orphans = false;
  Seconds took{};
};

// Waits until `done` or `patience` is over; returns whether it is done.
template <typename Done>
bool AwaitFor(Seconds patience, const Done& done) {
  const auto end = SystemClock().Now() + patience;
  while (!done()) {
    if (SystemClock().Now() > end) return false;
    std::this_thread::sleep_for(kChildPollInterval);
  }
  return true;
}

// Kills every child of this process.
void KillChildren() {
  std::ifstream file("/proc/thread-self/children");
  for (pid_t pid = 0; file >> pid;) kill(pid, SIGKILL);
}

// What a launcher leaves behind becomes this process's child. True if that is anything that does
// not end by itself.
bool ReapOrphans() {
  const auto none_left = [] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return waitpid(-1, nullptr, WNOHANG) < 0;
  };
  if (AwaitFor(kOrphanPatience, none_left)) return false;
  AwaitFor(kOrphanPatience, [&] {
    KillChildren();
    return none_left();
  });
  return true;
}

class Chaos {
 public:
  Chaos(const ChaosArguments& arguments, const JobConfig& config, std::string folder)
      : arguments_(arguments),
        shape_{.data = config.parallel.data,
               .pipeline = config.parallel.pipeline,
               .iterations = config.train.iterations,
               .failure_timeout_s = config.resilience.failure_timeout_ms / 1000.0},
        folder_(std::move(folder)),
        progress_(arguments.json ? std::cerr : std::cout) {}

  StatusOr<ExitCode> Run() {
    RC_RETURN_IF_ERROR(RunReference());
    int void_runs = 0;
    for (std::uint64_t seed = arguments_.seed; counted_ < arguments_.trials; ++seed) {
      const int before = counted_;
      RC_RETURN_IF_ERROR(RunSeed(seed));
      void_runs = counted_ == before ? void_runs + 1 : 0;
      if (void_runs == kVoidRuns) {
        return absl::FailedPreconditionError(fmt::format(
            "{} runs in a row had no trial whose faults all fired; see {}", kVoidRuns, folder_));
      }
    }
    PrintResult();
    if (!failures_.empty()) return ExitCode::kNo;
    std::error_code error;  // what cannot be removed stays
    std::filesystem::remove_all(reference_root_, error);
    std::filesystem::remove(folder_, error);  // unless something else is in it
    return ExitCode::kDone;
  }

 private:
  StatusOr<RunResult> RunJob(const std::string& root, const std::vector<Fault>& faults,
                             Seconds patience) const {
    ChildOptions child;
    child.argv = {ProgramFolder() + "/recycle",
                  "train",
                  arguments_.config_path,
                  "--run-dir",
                  root,
                  "--no-inject"};
    for (const std::string& override_text : arguments_.overrides) {
      child.argv.insert(child.argv.end(), {"--set", override_text});
    }
    child.argv.insert(child.argv.end(), {"--set", "log.samples=true"});
    // Every stage keeps its worker that nothing harms.
    child.argv.insert(child.argv.end(), {"--set", "resilience.role_changes=false"});
    for (const Fault& fault : faults) {
      child.argv.insert(child.argv.end(), {"--inject", ToString(fault)});
    }
    child.output_file = root + ".log";
    child.own_process_group = true;
    const auto begin = SystemClock().Now();
    RC_ASSIGN_OR_RETURN(const pid_t pid, StartChild(child));
    RunResult result;
    const auto ended = [&] { return waitpid(pid, &result.wait_status, WNOHANG) == pid; };
    result.hung = !AwaitFor(patience, ended);
    if (result.hung) {
      kill(pid, SIGKILL);
      waitpid(pid, &result.wait_status, 0);
    }
    result.took = SystemClock().Now() - begin;
    result.orphans = ReapOrphans();
    result.evidence = ReadEvidence(root);
    return result;
  }

  Status RunReference() {
    reference_root_ = folder_ + "/unharmed";
    RC_ASSIGN_OR_RETURN(const RunResult run,
                        RunJob(reference_root_, {}, std::chrono::hours(24 * 365)));
    if (run.wait_status != 0 || std::ssize(run.evidence.losses) != shape_.iterations) {
      return absl::FailedPreconditionError(
          fmt::format("the unharmed run does not end well ({}); its output is {}.log",
                      DescribeWaitStatus(run.wait_status), reference_root_));
    }
    reference_ = run.evidence;
    patience_ = kRunPatience + kRunPatienceFactor * run.took;
    progress_ << fmt::format("unharmed: {} iterations in {:.1f} s", shape_.iterations,
                             run.took.count())
              << std::endl;
    std::filesystem::remove(reference_root_ + ".log");
    return OkStatus();
  }

  Status RunSeed(std::uint64_t seed) {
    std::vector<ChaosTrial> trials = ChaosTrials(shape_, seed);
    const auto wanted = static_cast<std::size_t>(arguments_.trials - counted_);
    if (trials.size() > wanted) trials.resize(wanted);
    std::vector<Fault> faults;
    for (const ChaosTrial& trial : trials) {
      faults.insert(faults.end(), trial.faults.begin(), trial.faults.end());
    }
    const std::string root = fmt::format("{}/seed-{}", folder_, seed);
    RC_ASSIGN_OR_RETURN(const RunResult run, RunJob(root, faults, patience_));
    const int fired = CountFired(trials, run.evidence);
    const std::vector<std::string> problems = Problems(run, faults);
    Record(seed, trials, fired, problems, run);
    if (problems.empty()) {
      std::error_code error;  // what cannot be removed stays
      std::filesystem::remove_all(root, error);
      std::filesystem::remove(root + ".log", error);
    }
    return OkStatus();
  }

  // Trials of which every fault has left its event.
  static int CountFired(const std::vector<ChaosTrial>& trials, const ChaosEvidence& evidence) {
    return static_cast<int>(std::count_if(trials.begin(), trials.end(), [&](const auto& trial) {
      return std::all_of(trial.faults.begin(), trial.faults.end(), [&](const Fault& fault) {
        return evidence.fired.contains(ToString(fault));
      });
    }));
  }

  std::vector<std::string> Problems(const RunResult& run, const std::vector<Fault>& faults) const {
    std::vector<std::string> problems = Differences(run.evidence, reference_);
    // A fault that did not fire makes it 1 (docs/CLI.md); its trial does not count.
    const bool all_fired = std::all_of(faults.begin(), faults.end(), [&](const Fault& fault) {
      return run.evidence.fired.contains(ToString(fault));
    });
    const int code = static_cast<int>(all_fired ? ExitCode::kDone : ExitCode::kNo);
    if (run.hung) {
      problems.push_back(fmt::format("it did not end within {:.0f} s", patience_.count()));
    } else if (!WIFEXITED(run.wait_status) || WEXITSTATUS(run.wait_status) != code) {
      problems.push_back(
          fmt::format("it ended with {}, not {}", DescribeWaitStatus(run.wait_status), code));
    }
    if (run.orphans) {
      problems.push_back(
          fmt::format("processes were left {} s after its end", kOrphanPatience.count()));
    }
    return problems;
  }

  void Record(std::uint64_t seed, const std::vector<ChaosTrial>& trials, int fired,
              const std::vector<std::string>& problems, const RunResult& run) {
    ++runs_;
    const int size = static_cast<int>(trials.size());
    void_ += size - fired;
    // A run fails with all of its trials: which of them it was is for a person to find out.
    counted_ += problems.empty() ? fired : size;
    Json faults = Json::array();
    for (const ChaosTrial& trial : trials) {
      std::vector<std::string> texts;
      for (const Fault& fault : trial.faults) {
        texts.push_back(ToString(fault));
        if (run.evidence.fired.contains(texts.back())) {
          ++fired_[fmt::format(
              "{}{}", WhatText(fault.what),
              fault.target.kind == TargetKind::kCoordinator ? " coordinator" : "")];
        }
      }
      faults.push_back(fmt::format("{}", fmt::join(texts, " + ")));
    }
    progress_ << fmt::format("seed {}: {} of {} trials count, {:.1f} s: {} ({}/{})", seed, fired,
                             size, run.took.count(), problems.empty() ? "as unharmed" : "FAILED",
                             counted_, arguments_.trials)
              << std::endl;
    if (problems.empty()) return;
    const std::string root = fmt::format("{}/seed-{}", folder_, seed);
    const std::string replay = fmt::format("recycle chaos {} --seed {} --trials {}{}",
                                           arguments_.config_path, seed, size, OverrideWords());
    for (const std::string& problem : problems) progress_ << "  " << problem << "\n";
    for (const Json& fault : faults) progress_ << "  " << fault.get<std::string>() << "\n";
    progress_ << "  run folder: " << root << "\n  again: " << replay << std::endl;
    failures_.push_back({{"seed", seed},
                         {"trials", size},
                         {"problems", problems},
                         {"faults", faults},
                         {"run_dir", root},
                         {"replay", replay}});
  }

  std::string OverrideWords() const {
    std::string words;
    for (const std::string& text : arguments_.overrides) words += fmt::format(" --set '{}'", text);
    return words;
  }

  void PrintResult() const {
    int failed = 0;
    for (const Json& failure : failures_) failed += failure.at("trials").get<int>();
    if (arguments_.json) {
      const Json result = {
          {"seed", arguments_.seed}, {"trials", counted_},   {"passed", counted_ - failed},
          {"failed", failed},        {"void", void_},        {"runs", runs_},
          {"fired", fired_},         {"failures", failures_}};
      std::cout << result.dump(2) << std::endl;
      return;
    }
    std::vector<std::string> kinds;
    for (const auto& [kind, count] : fired_) kinds.push_back(fmt::format("{} {}", count, kind));
    std::cout << fmt::format("{} of {} trials passed, in {} runs; faults that fired: {}\n",
                             counted_ - failed, counted_, runs_, fmt::join(kinds, ", "))
              << std::flush;
  }

  const ChaosArguments arguments_;
  const ChaosShape shape_;
  const std::string folder_;
  std::ostream& progress_;
  std::string reference_root_;
  ChaosEvidence reference_;
  Seconds patience_{};
  int runs_ = 0;
  int counted_ = 0;
  int void_ = 0;  // trials with a fault that did not fire
  std::map<std::string, int> fired_;
  Json failures_ = Json::array();
};

StatusOr<std::string> MakeFolder(const std::string& wanted) {
  if (!wanted.empty()) {
    std::error_code error;
    std::filesystem::create_directories(wanted, error);
    if (error || !std::filesystem::is_empty(wanted, error) || error) {
      return absl::InvalidArgumentError(
          fmt::format("--run-dir '{}' must be a folder that is new or empty", wanted));
    }
    return std::filesystem::absolute(wanted).string();
  }
  return MakeTemporaryFolder("chaos");
}

StatusOr<ExitCode> CheckAndRun(const ChaosArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const JobConfig config,
                      LoadJobConfig(arguments.config_path, arguments.overrides));
  if (config.train.iterations < kChaosMinIterations) {
    return absl::InvalidArgumentError(
        fmt::format("train.iterations = {}: chaos needs room for faults, at least {}; the nearest "
                    "valid choice is --set train.iterations={}",
                    config.train.iterations, kChaosMinIterations, kChaosMinIterations));
  }
  RC_ASSIGN_OR_RETURN(const std::string folder, MakeFolder(arguments.run_dir));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return Chaos(arguments, config, folder).Run();
}

}  // namespace

int RunChaos(const ChaosArguments& arguments) {
  const StatusOr<ExitCode> code = CheckAndRun(arguments);
  return code.ok() ? static_cast<int>(*code) : static_cast<int>(ReportError(code.status()));
}

}  // namespace recycle
