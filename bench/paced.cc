// The paper's Table 2, simulated against real, by paced workers: real executors, coordinator, links
// and recovery, whose actions last as long as a profile says (docs/simulator.md). Prints the
// sections that follow those of bench/paper in docs/paper.md:
//
//   build/dev/bench/paced >> docs/paper.md
//
// Takes some minutes, most of them waiting. The machine's load shows in the columns "wall clock",
// nowhere else.
#include "paced.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "recycle/app/profile_file.h"
#include "recycle/app/simulation_plans.h"
#include "recycle/base/check.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/timeline.h"
#include "recycle/planner/fault_free.h"
#include "recycle/simulator/simulation.h"

namespace recycle::testing {
namespace {

constexpr std::chrono::seconds kLimit{600};

[[noreturn]] void Fail(const Job& job, const std::string& what) {
  fmt::print(stderr, "{}:\n{}\n", what, job.Output());
  std::exit(1);
}

void Finish(Job& job) {
  if (const int code = job.Wait(kLimit); code != 0) Fail(job, fmt::format("ended with {}", code));
}

// The ratios of bench/paper, in ms.
CostProfile Costs(int stages, double forward_ms) {
  const auto ticks = [forward_ms](double share) {
    return ToTicks(forward_ms * share, "cost").value();
  };
  return ProfileOf(stages,
                   {.forward = ticks(1),
                    .backward_input = ticks(1.05),
                    .backward_weight = ticks(0.85),
                    .optimizer = ticks(0.2),
                    .all_reduce = ticks(0.3)},
                   /*send_ms=*/0.05 * forward_ms);
}

struct Layout {
  int data, pipeline, micro_batches;
  double time_scale;
  std::vector<std::string> faults;  // one after the other
};

JobOptions OptionsOf(const Layout& layout, int iterations, int failures) {
  return {.data = layout.data,
          .pipeline = layout.pipeline,
          .micro_batches = layout.micro_batches,
          .iterations = iterations,
          .layers = layout.pipeline,
          .staggered = true,
          .clip = 1000,
          .inject = {layout.faults.begin(), layout.faults.begin() + failures}};
}

double ErrorPercent(double measured, double expected) { return 100 * (measured / expected - 1); }

// --- Table 2 -------------------------------------------------------------------------------------

// Stages have gone ahead of their verdicts for some iterations; the last one waits for all.
constexpr int kFirst = 15;
constexpr int kLast = 24;

void Table2Row(const Layout& layout, int failures) {
  Job job(OptionsOf(layout, kLast + 1, failures));
  Pace(job, Costs(layout.pipeline, 100), layout.time_scale);
  job.Start();
  if (!job.AwaitIteration(kFirst - 1)) Fail(job, "too slow");
  const double began_s = MonotonicSeconds();
  if (!job.AwaitIteration(kLast)) Fail(job, "too slow");
  constexpr int kIterations = kLast - kFirst + 1;
  const double wall_ms = 1e3 * (MonotonicSeconds() - began_s) / kIterations / layout.time_scale;
  Finish(job);
  double stamped_ms = 0;
  for (const auto& [iteration, ms] : IterationMs(job)) {
    if (iteration >= kFirst && iteration <= kLast) stamped_ms += ms / kIterations;
  }
  const double planned_ms = PlannedMs(job, static_cast<int>(std::ssize(job.Events("generation"))));
  fmt::print("| {} x {}, M {} | {} | {:.1f} | {:.1f} | {:+.3f}% | {:.1f} | {:+.2f}% |\n",
             layout.data, layout.pipeline, layout.micro_batches, failures, planned_ms, stamped_ms,
             ErrorPercent(stamped_ms, planned_ms), wall_ms, ErrorPercent(wall_ms, planned_ms));
  std::fflush(stdout);
}

void Table2() {
  fmt::print(
      "\n## Table 2: simulated against real\n\nReal is paced here: every worker is a process that "
      "computes a small model and exchanges its tensors, and each action lasts as long as a "
      "profile says (F : I : W : send : all-reduce : optimizer = 100 : 105 : 85 : 5 : 30 : 20 ms). "
      "Staggered, workers dead from iterations 2 to 4 on, mean of iterations {} to {}; ms. The "
      "paper's simulator was off by up to 5.98%. *Workers' time* is by the stamps that frames "
      "carry; *wall clock* is what passed outside, divided by the time scale: it has the machine's "
      "lateness in it.\n\n"
      "| pipelines x stages | failed | planned | workers' time | error | wall clock | error |\n"
      "|---|---|---|---|---|---|---|\n",
      kFirst, kLast);
  const Layout layouts[] = {{3,
                             4,
                             6,
                             0.2,
                             {"kill 1:2 at F of iteration 2", "kill 0:1 at F of iteration 3",
                              "kill 2:3 at F of iteration 4"}},
                            {4,
                             8,
                             8,
                             0.5,
                             {"kill 1:2 at F of iteration 2", "kill 0:5 at F of iteration 3",
                              "kill 3:7 at F of iteration 4"}}};
  for (const Layout& layout : layouts) {
    for (const int failures : {0, 1, 3}) Table2Row(layout, failures);
  }
}

// --- a trace -------------------------------------------------------------------------------------

struct NodeChange {
  double time_s;  // of the profile
  int pipeline, stage;
  bool comes;
};

// Failures and repairs of an hour on 12 nodes, one worker each; no stage is ever lost.
constexpr NodeChange kChanges[] = {{300, 1, 2, false},  {700, 0, 0, false},  {1100, 1, 2, true},
                                   {1500, 2, 3, false}, {1600, 0, 0, true},  {2000, 0, 1, false},
                                   {2400, 2, 3, true},  {2700, 1, 1, false}, {3000, 0, 1, true},
                                   {3300, 1, 1, true}};

pid_t Join(const Job& job, const std::string& worker) {
  const std::string folder = job.run_folder().string();
  const std::string log = (job.folder() / "join.txt").string();
  const pid_t pid = fork();
  if (pid == 0) {
    if (std::freopen(log.c_str(), "a", stdout) == nullptr) _exit(127);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    execl(RECYCLE_PROGRAM, RECYCLE_PROGRAM, "join", folder.c_str(), worker.c_str(), nullptr);
    _exit(127);
  }
  return pid;
}

void SleepUntil(double monotonic_s) {
  const double left_s = monotonic_s - MonotonicSeconds();
  if (left_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left_s));
}

// What the simulator says of `changes` in `duration_s`.
double SimulatedGoodput(const PlanRequest& request, const std::vector<NodeChange>& changes,
                        double duration_s) {
  SimulatedJob job;
  job.parallel = request.parallel;
  job.micro_batches = request.micro_batches;
  job.costs = request.costs;
  job.parameters = 0;  // the small model's state is copied at once
  const int nodes = request.parallel.num_workers();
  FailureTrace trace{.num_nodes = nodes, .events = {}, .end_s = duration_s};
  for (int node = 0; node < nodes; ++node) trace.events.push_back({0, node, true});
  for (const NodeChange& change : changes) {
    trace.events.push_back(
        {change.time_s, change.pipeline * request.parallel.pipeline + change.stage, change.comes});
  }
  const JobTimeline timeline =
      MakeJobTimeline(trace, {.num_blocks = nodes, .duration_s = duration_s}).value();
  const PolicyConstants constants;
  SimulationPlans plans(request, /*search=*/true);
  const StatusOr<PolicyResult> result =
      Simulate({.job = job, .constants = constants, .planner = plans, .move_roles = false},
               timeline, "recycle");
  RC_CHECK(result.ok()) << result.status();
  return result->goodput;
}

void Replay() {
  constexpr double kForwardMs = 1000;
  const Layout layout{3, 4, 6, 0.025, {}};
  PlanRequest request;
  request.parallel = {.data = layout.data, .pipeline = layout.pipeline};
  request.micro_batches = layout.micro_batches;
  request.costs = Costs(layout.pipeline, kForwardMs);
  request.options = {.decoupled = true, .staggered = true};
  const double reference_s = 1e-3 * ToUnits(FaultFreeOneFOneBPeriod(request).value());

  const JobOptions options = OptionsOf(layout, kFirst + static_cast<int>(4200 / reference_s), 0);
  Job job(options);
  Pace(job, request.costs, layout.time_scale);
  job.Start();
  if (!job.AwaitIteration(kFirst - 1)) Fail(job, "too slow");
  const double start_s = UnixSeconds();
  std::vector<pid_t> joiners;
  std::vector<NodeChange> changes;  // as they came about: a process needs time to start
  for (NodeChange change : kChanges) {
    SleepUntil(MonotonicSeconds() - UnixSeconds() + start_s + change.time_s * layout.time_scale);
    const std::string worker = fmt::format("{}:{}", change.pipeline, change.stage);
    if (change.comes) {
      joiners.push_back(Join(job, worker));
      if (!job.AwaitEvents("rejoin_started", joiners.size())) Fail(job, "nobody came back");
      const nlohmann::json event = job.Events("rejoin_started").back();
      change.time_s = (event.at("time").get<double>() - start_s) / layout.time_scale;
    } else {
      kill(job.WorkerPids().at(worker), SIGKILL);
    }
    changes.push_back(change);
  }
  Finish(job);
  for (const pid_t joiner : joiners) waitpid(joiner, nullptr, 0);
  double duration_s = 0;
  int iterations = 0;
  for (const auto& [iteration, ms] : IterationMs(job)) {
    if (iteration < kFirst) continue;
    duration_s += 1e-3 * ms;
    ++iterations;
  }
  const double paced = iterations * reference_s / duration_s;
  const double simulated = SimulatedGoodput(request, changes, duration_s);
  double resume_s = 0;
  for (const nlohmann::json& event : job.Events("resumed")) {
    resume_s = std::max(resume_s, 1e-3 * event.at("resume_ms").get<double>() / layout.time_scale);
  }
  fmt::print(
      "\n## A trace, replayed by paced workers\n\n{} pipelines x {} stages, M {}, F = {} ms; "
      "{:.0f} "
      "s of the profile in {:.0f} s, with {} failures and {} returns. Workers are killed, and "
      "`recycle join` brings them back; to the simulator they are back when their processes are. "
      "It has its usual constants (2.25 s for a failure; the longest regroup here took {:.1f} s of "
      "the profile), every failure count planned (--search), no role moves.\n\n",
      layout.data, layout.pipeline, layout.micro_batches, kForwardMs, duration_s,
      duration_s * layout.time_scale, job.Events("failure_detected").size(),
      job.Events("rejoined").size(), resume_s);
  fmt::print(
      "| | goodput |\n|---|---|\n| simulated | {:.4f} |\n| paced | {:.4f} |\n| error | {:+.2f}% "
      "|\n",
      simulated, paced, ErrorPercent(paced, simulated));
  std::fflush(stdout);
}

// --- without pacing ------------------------------------------------------------------------------

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The same example on this machine's CPUs as they are: costs by `recycle profile`, then a run.
void Unpaced(int failures) {
  const Layout layout{3, 4, 6, 1, {"kill 1:2 at F of iteration 2"}};
  JobOptions options = OptionsOf(layout, kLast + 1, failures);
  options.micro_batch_size = 2;
  options.hidden = 96;
  options.sequence = 64;
  JobOptions profiling = options;
  profiling.command = "profile";
  profiling.staggered = false;
  Job profile(profiling);
  const std::string file = (profile.folder() / "profile.json").string();
  profile.AddArguments({"--iterations", "20", "--output", file});
  profile.Start();
  Finish(profile);
  Job job(options);
  job.Start();
  Finish(job);
  std::vector<double> times;
  for (const auto& [iteration, ms] : IterationMs(job)) {
    if (iteration >= kFirst && iteration <= kLast) times.push_back(ms);
  }
  const int generation = static_cast<int>(std::ssize(job.Events("generation")));
  Plan plan =
      ReadPlanFile((job.run_folder() / fmt::format("plans/g{}.json", generation)).string()).value();
  plan.costs = ReadJobProfile(file, /*model=*/"", layout.pipeline).value().costs;
  const double planned_ms = ToUnits(ComputeFigures(plan).value().period);
  const double measured_ms = Median(times);
  fmt::print("| {} | {:.1f} | {:.1f} | {:+.0f}% |\n", failures, planned_ms, measured_ms,
             ErrorPercent(measured_ms, planned_ms));
  std::fflush(stdout);
}

int Run() {
  Table2();
  Replay();
  fmt::print(
      "\n## Without pacing\n\nThe 3 x 4 job on {} CPUs as they are, its costs by `recycle "
      "profile`; median of iterations {} to {}, ms. Twelve workers that want a CPU at once wait "
      "for one, which no plan knows: there is no bound on this error.\n\n"
      "| failed | planned | measured | error |\n|---|---|---|---|\n",
      std::thread::hardware_concurrency(), kFirst, kLast);
  for (const int failures : {0, 1}) Unpaced(failures);
  return 0;
}

}  // namespace
}  // namespace recycle::testing

int main() { return recycle::testing::Run(); }
