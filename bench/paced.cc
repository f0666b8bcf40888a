// The paper's Table 2, simulated against real, by paced workers: real executors, coordinator, links
// and recovery, whose actions last as long as a profile says (docs/simulator.md). Prints the
// sections that follow those of bench/paper in docs/paper.md:
//
//   build/dev/bench/paced >> docs/paper.md
//
// Takes some minutes, most of them waiting. The machine's load shows in the columns "wall clock",
// nowhere else. Any trace of nodes that come and go (docs/simulator.md) is replayed by
//
//   build/dev/bench/paced FILE DATA PIPELINE MICRO_BATCHES F_MS TIME_SCALE
#include "paced.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "median.h"
#include "paced_jobs.h"
#include "recycle/app/profile_file.h"
#include "recycle/app/simulation_plans.h"
#include "recycle/base/check.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/timeline.h"
#include "recycle/planner/fault_free.h"
#include "recycle/simulator/job_timeline.h"
#include "recycle/simulator/simulation.h"
#include "recycle/simulator/trace_file.h"

namespace recycle::testing {
namespace {

// --- Table 2 -------------------------------------------------------------------------------------

// Returns the seconds from the command to the last worker's hello.
double Table2Row(const Layout& layout, int failures) {
  Job job(OptionsOf(layout, kLast + 1, failures));
  const double start_unix_s = UnixSeconds();
  const Periods periods = Measure(job, layout);
  fmt::print("| {} x {}, M {} | {} | {:.1f} | {:.1f} | {:+.3f}% | {:.1f} | {:+.2f}% |\n",
             layout.data, layout.pipeline, layout.micro_batches, failures, periods.planned_ms,
             periods.stamped_ms, ErrorPercent(periods.stamped_ms, periods.planned_ms),
             periods.wall_ms, ErrorPercent(periods.wall_ms, periods.planned_ms));
  std::fflush(stdout);
  return job.Events("worker_joined").back().at("time").get<double>() - start_unix_s;
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
  double start_s = 0;
  for (const Layout& layout : Layouts()) {
    for (const int failures : {0, 1, 3}) start_s = Table2Row(layout, failures);
  }
  fmt::print(
      "\nThe 32 executors, forked from a parent that has libtorch loaded, were there {:.1f} s "
      "after the command.\n",
      start_s);
}

// --- a trace -------------------------------------------------------------------------------------

// Of 12 nodes, one worker each, in ms of the profile with F = 250 ms. No stage is ever lost.
constexpr std::string_view kTrace =
    "0,add,node1\n0,add,node2\n0,add,node3\n0,add,node4\n0,add,node5\n0,add,node6\n"
    "0,add,node7\n0,add,node8\n0,add,node9\n0,add,node10\n0,add,node11\n0,add,node12\n"
    "80000,remove,node7\n160000,remove,node1\n220000,add,node7\n320000,remove,node12\n"
    "400000,add,node1\n430000,remove,node2\n480000,add,node12\n590000,remove,node6\n"
    "630000,add,node2\n710000,add,node6\n1000000,remove,node7\n";
constexpr double kTraceForwardMs = 250;

struct ReplayOptions {
  std::string name;
  JobTimeline timeline;  // of the profile's time
  int data, pipeline, micro_batches;
  double forward_ms;
  double time_scale;
};

JobTimeline TimelineOf(std::string_view text, int workers, double stretch) {
  StatusOr<FailureTrace> trace = ReadTrace(text, {});
  if (trace.ok()) {
    for (NodeEvent& event : trace->events) event.time_s *= stretch;
    trace->end_s *= stretch;
    StatusOr<JobTimeline> timeline = MakeJobTimeline(*trace, {.num_blocks = workers});
    if (timeline.ok()) return *std::move(timeline);
    trace = timeline.status();
  }
  fmt::print(stderr, "paced: {}\n", std::string(trace.status().message()));
  std::exit(2);
}

StatusOr<PolicyResult> SimulateReplay(const PlanRequest& request, const JobTimeline& timeline) {
  SimulatedJob job;
  job.parallel = request.parallel;
  job.micro_batches = request.micro_batches;
  job.costs = request.costs;
  job.parameters = 0;  // the small model's state is copied at once
  const PolicyConstants constants;
  SimulationPlans plans(request, /*search=*/true);
  return Simulate({.job = job, .constants = constants, .planner = plans, .move_roles = false},
                  timeline, "recycle");
}

// Kills and brings back workers when the timeline says so, on this machine's clock; ends the job.
void Drive(Job& job, const ReplayOptions& replay, double start_s) {
  const auto await = [&](double profile_s) {
    const double left_s = start_s + profile_s * replay.time_scale - MonotonicSeconds();
    if (left_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left_s));
  };
  std::vector<pid_t> joiners;
  for (const JobEvent& event : replay.timeline.events) {
    if (event.time_s >= replay.timeline.duration_s) break;
    await(event.time_s);
    const std::string worker =
        fmt::format("{}:{}", event.block / replay.pipeline, event.block % replay.pipeline);
    if (event.join) {
      joiners.push_back(job.StartCommand("join", worker));
    } else {
      kill(job.WorkerPids().at(worker), SIGKILL);
    }
  }
  await(replay.timeline.duration_s);
  kill(job.pid(), SIGTERM);
  if (const int code = job.Wait(kLimit); code != 128 + SIGTERM) {
    Fail(job, fmt::format("ended with {}", code));
  }
  for (const pid_t joiner : joiners) waitpid(joiner, nullptr, 0);
}

void ReplayRow(const ReplayOptions& replay) {
  PlanRequest request;
  request.parallel = {.data = replay.data, .pipeline = replay.pipeline};
  request.micro_batches = replay.micro_batches;
  request.costs = Costs(replay.pipeline, replay.forward_ms);
  request.options = {.decoupled = true, .staggered = true};
  const double reference_s = 1e-3 * ToUnits(FaultFreeOneFOneBPeriod(request).value());

  Job job(OptionsOf({replay.data, replay.pipeline, replay.micro_batches, replay.time_scale, {}},
                    /*iterations=*/1000000, /*failures=*/0));
  Pace(job, request.costs, replay.time_scale);
  job.Start();
  if (!job.AwaitIteration(kFirst - 1)) Fail(job, "too slow");
  Drive(job, replay, MonotonicSeconds());
  double duration_s = 0;
  int iterations = 0;
  for (const auto& [iteration, ms] : IterationMs(job)) {
    if (iteration < kFirst) continue;
    duration_s += 1e-3 * ms;
    ++iterations;
  }
  const double paced = iterations * reference_s / duration_s;
  const StatusOr<PolicyResult> simulated = SimulateReplay(request, replay.timeline);
  RC_CHECK(simulated.ok()) << simulated.status();
  double resume_s = 0;
  for (const nlohmann::json& event : job.Events("resumed")) {
    resume_s = std::max(resume_s, 1e-3 * event.at("resume_ms").get<double>() / replay.time_scale);
  }
  fmt::print(
      "| {} | {} x {} | {} | {:.0f} ms | {:.0f} s | {}, {} | {:.1f} s | {:.4f} | {:.4f} | {:+.2f}% "
      "|\n",
      replay.name, replay.data, replay.pipeline, replay.time_scale, replay.forward_ms, duration_s,
      job.Events("failure_detected").size(), job.Events("rejoined").size(), resume_s,
      simulated->goodput, paced, ErrorPercent(paced, simulated->goodput));
  std::fflush(stdout);
}

void ReplayHead() {
  fmt::print(
      "\n## A trace, replayed by paced workers\n\nWorkers are killed and brought back "
      "(`recycle join`) when the trace says so, on the machine's clock; the simulator is given "
      "the same trace. It has its usual constants, 2.25 s for a failure and none for a return; "
      "every failure count planned (--search), no role moves. Regroups and the start of a process "
      "take what they take on this machine, so the more time is compressed, the more of the "
      "profile's they count as: the second row shows it.\n\n"
      "| trace | pipelines x stages | time scale | F | time of the profile | failures, returns | "
      "longest regroup | simulated | paced | error |\n|---|---|---|---|---|---|---|---|---|---|\n");
}

// A forward takes 25 ms on the clock, so that the machine keeps up.
void Replay() {
  ReplayHead();
  for (const double time_scale : {0.1, 0.025}) {
    const double forward_ms = 25 / time_scale;
    ReplayRow({"made for this", TimelineOf(kTrace, 12, forward_ms / kTraceForwardMs), 3, 4, 6,
               forward_ms, time_scale});
  }
}

// --- without pacing ------------------------------------------------------------------------------

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

// FILE DATA PIPELINE MICRO_BATCHES F_MS TIME_SCALE
int RunTrace(const std::vector<std::string>& words) {
  std::ifstream file(words.front());
  std::stringstream text;
  text << file.rdbuf();
  if (words.size() != 6 || !file) {
    fmt::print(stderr, "usage: paced [FILE DATA PIPELINE MICRO_BATCHES F_MS TIME_SCALE]\n");
    return 2;
  }
  const int data = std::atoi(words[1].c_str());
  const int pipeline = std::atoi(words[2].c_str());
  ReplayHead();
  ReplayRow({std::filesystem::path(words.front()).filename().string(),
             TimelineOf(text.str(), data * pipeline, /*stretch=*/1), data, pipeline,
             std::atoi(words[3].c_str()), std::atof(words[4].c_str()),
             std::atof(words[5].c_str())});
  return 0;
}

}  // namespace
}  // namespace recycle::testing

int main(int argc, char** argv) {
  if (argc == 1) return recycle::testing::Run();
  return recycle::testing::RunTrace({argv + 1, argv + argc});
}
