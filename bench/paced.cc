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

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
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
  double time_s;  // of the profile, from the beginning of iteration kFirst on
  WorkerId worker;
  bool comes;
};

// Failures and repairs on 12 nodes, one worker each: in which iteration, and for how many seconds
// of this machine. No stage is ever lost.
std::vector<std::string> ReplayedFaults() {
  std::vector<std::string> faults;
  for (const auto& [worker, iteration, down_s] :
       {std::tuple("1:2", 30, 14), std::tuple("0:0", 45, 24), std::tuple("2:3", 75, 16),
        std::tuple("0:1", 95, 20), std::tuple("1:1", 125, 12)}) {
    faults.push_back(fmt::format("kill {} at F of iteration {} and rejoin after {}s", worker,
                                 iteration, down_s));
  }
  return faults;
}

// As it came about: a node is back when its process has the state and is a member.
std::vector<NodeChange> ChangesOf(const Job& job, double start_unix_s, double time_scale) {
  std::vector<NodeChange> changes;
  for (const char* name : {"fault_injected", "rejoined"}) {
    for (const nlohmann::json& event : job.Events(name)) {
      changes.push_back({(event.at("time").get<double>() - start_unix_s) / time_scale,
                         ParseWorkerId(event.at("worker").get<std::string>()).value(),
                         name == std::string_view("rejoined")});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const NodeChange& a, const NodeChange& b) { return a.time_s < b.time_s; });
  return changes;
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
    const int place =
        change.worker.pipeline.value() * request.parallel.pipeline + change.worker.stage.value();
    trace.events.push_back({change.time_s, place, change.comes});
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

// A forward takes 25 ms on the clock, so that the machine keeps up.
void ReplayRow(double time_scale) {
  const double forward_ms = 25 / time_scale;
  constexpr int kIterations = 175;
  const Layout layout{3, 4, 6, time_scale, ReplayedFaults()};
  PlanRequest request;
  request.parallel = {.data = layout.data, .pipeline = layout.pipeline};
  request.micro_batches = layout.micro_batches;
  request.costs = Costs(layout.pipeline, forward_ms);
  request.options = {.decoupled = true, .staggered = true};
  const double reference_s = 1e-3 * ToUnits(FaultFreeOneFOneBPeriod(request).value());

  Job job(OptionsOf(layout, kIterations, static_cast<int>(std::ssize(layout.faults))));
  Pace(job, request.costs, layout.time_scale);
  job.Start();
  if (!job.AwaitIteration(kFirst - 1)) Fail(job, "too slow");
  const double start_unix_s = UnixSeconds();
  Finish(job);
  const std::vector<NodeChange> changes = ChangesOf(job, start_unix_s, layout.time_scale);
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
  fmt::print("| {} | {:.0f} ms | {:.0f} s | {}, {} | {:.1f} s | {:.4f} | {:.4f} | {:+.2f}% |\n",
             time_scale, forward_ms, duration_s, job.Events("failure_detected").size(),
             job.Events("rejoined").size(), resume_s, simulated, paced,
             ErrorPercent(paced, simulated));
  std::fflush(stdout);
}

void Replay() {
  fmt::print(
      "\n## A trace, replayed by paced workers\n\n3 pipelines x 4 stages, M 6. Workers are killed, "
      "and their agent starts them again; the simulator is given the times at which that came "
      "about. "
      "It has its usual constants, 2.25 s for a failure and none for a return; every failure count "
      "planned (--search), no role moves. Regroups take what they take on this machine, so the "
      "more "
      "time is compressed, the more of the profile's they count as: the second row shows it.\n\n"
      "| time scale | F | time of the profile | failures, returns | longest regroup | simulated | "
      "paced "
      "| error |\n|---|---|---|---|---|---|---|---|\n");
  for (const double time_scale : {0.1, 0.025}) ReplayRow(time_scale);
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
