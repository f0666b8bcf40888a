// The paper's tables and figures beside ours, as docs/paper.md:
//
//   build/dev/bench/paper [TRACES] > docs/paper.md      (TRACES: default ../shared/traces)
//   build/dev/bench/paced >> docs/paper.md              (Table 2: jobs that really run)
//
// Layouts the paper does not state are assumed and named; nothing is tuned to match. Costs are
// scaled so that fault-free 1F1B gives the paper's fault-free throughput; only ratios are compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "recycle/app/simulation_plans.h"
#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/base/file.h"
#include "recycle/base/prng.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/plan_table.h"
#include "recycle/simulator/memory_model.h"
#include "recycle/simulator/simulation.h"
#include "recycle/simulator/trace_file.h"

namespace recycle {
namespace {

using testing::kReal;
using testing::kUnit;
using testing::MakeRequest;

constexpr double kHour = 3600;

// A model as the paper trains it on 32 A100s; layouts ASSUMED.
struct Training {
  const char* title;
  std::string_view model;
  int dp, pp, micro_batches;
  int micro_batch_size;
  double samples_per_s;  // the paper's fault-free throughput
  double recycle[3];     // the paper's Table 1, relative, failure every 6 h, 2 h, 30 min
  double oobleck[3];
};
constexpr Training kTrainings[] = {
    {"GPT-3 Medium", "gpt3-medium", 16, 2, 32, 16, 27.58, {.989, .922, .807}, {.988, .920, .706}},
    {"GPT-3 3.35B", "gpt3-3.35b", 8, 4, 32, 4, 14.87, {.981, .953, .849}, {.978, .904, .658}},
    {"GPT-3 6.7B", "gpt3-6.7b", 4, 8, 32, 8, 5.33, {.970, .910, .662}, {.934, .872, .522}}};

// Like the paper, 1F1B as long as nothing has failed: no plan counts as faster than that.
class CappedPlans : public SimulationPlans {
 public:
  explicit CappedPlans(const PlanRequest& request)
      : SimulationPlans(request, /*search=*/false), micro_batches_(request.micro_batches) {}
  StatusOr<Ticks> ReroutingPeriod(PlanVariant variant,
                                  const std::vector<int>& failed_per_stage) override {
    RC_ASSIGN_OR_RETURN(const Ticks period,
                        SimulationPlans::ReroutingPeriod(variant, failed_per_stage));
    RC_ASSIGN_OR_RETURN(const Ticks reference, OneFOneBPeriod(micro_batches_));
    return std::max(period, reference);
  }

 private:
  const int micro_batches_;
};

ModelSpec Model(std::string_view name) { return FindModel(name).value(); }

// A job whose fault-free 1F1B takes `iteration_s`, and its planner's request.
struct Experiment {
  SimulatedJob job;
  PlanRequest request;
  PolicyConstants constants;

  Experiment(std::string_view model, int dp, int pp, int m, double iteration_s,
             const std::string& cap)
      : request(MakeRequest(dp, pp, m, kReal, cap)) {
    const double unit_s = static_cast<double>(FaultFreeOneFOneBPeriod(request).value()) * 1e-9;
    const double scale = iteration_s / unit_s;
    const auto scaled = [scale](Ticks ticks) {
      return std::llround(static_cast<double>(ticks) * scale);
    };
    for (StageCosts& stage : request.costs.stages) {
      stage.forward = scaled(stage.forward);
      stage.backward_input = scaled(stage.backward_input);
      stage.backward_weight = scaled(stage.backward_weight);
    }
    for (Ticks& send : request.costs.send_forward) send = scaled(send);
    for (Ticks& send : request.costs.send_backward) send = scaled(send);
    request.costs.unit = "ms";
    const ModelSpec spec = Model(model);
    job.parallel = request.parallel;
    job.micro_batches = m;
    job.costs = request.costs;
    job.model = spec.name;
    job.parameters = spec.parameters;
    job.layers = spec.layers;
    constants = ConstantsFor(job);
  }

  double Goodput(const JobTimeline& timeline, std::string_view policy, bool capped) const {
    CappedPlans like_the_paper(request);
    SimulationPlans plain(request, /*search=*/false);
    SimulationPlanner& planner = capped ? static_cast<SimulationPlanner&>(like_the_paper) : plain;
    const StatusOr<PolicyResult> result =
        Simulate({.job = job, .constants = constants, .planner = planner}, timeline, policy);
    RC_CHECK(result.ok()) << result.status();
    return result->goodput;
  }
};

// One GPU lost every `every_s`, drawn with seed 1, none comes back.
JobTimeline MonotoneFailures(int nodes, double every_s, double duration_s) {
  std::vector<int> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  Prng prng(1);
  prng.Shuffle(order);
  FailureTrace trace;
  trace.num_nodes = nodes;
  trace.end_s = duration_s;
  for (int node = 0; node < nodes; ++node) trace.events.push_back({0, node, true});
  for (int i = 1; i * every_s <= duration_s && i <= nodes; ++i) {
    trace.events.push_back({i * every_s, order[static_cast<std::size_t>(i - 1)], false});
  }
  return MakeJobTimeline(trace, {.num_blocks = nodes, .duration_s = duration_s}).value();
}

// --- the running example -------------------------------------------------------------------------

void RunningExample() {
  const auto period = [](bool failed, Method method, bool staggered) {
    PlanRequest request = MakeRequest(3, 4, 6, kUnit);
    if (failed) request.failed = {testing::At(1, 2)};
    request.method = method;
    request.options.staggered = staggered;
    return ToUnits(*MakePlan(request).value().period);
  };
  fmt::print(
      "## The running example\n\n3 pipelines, 4 stages, 6 micro-batches, F = I = W = 1 slot, "
      "worker 1:2 dead, no memory limit; slots per iteration.\n\n"
      "| | paper | here |\n|---|---|---|\n"
      "| fault-free 1F1B | 27 | {} |\n| re-routing alone | 36 | {} |\n"
      "| + decoupled back-propagation | 29 | {} |\n| + staggered optimizer | 27 | {} |\n\n",
      period(false, Method::kOneFOneB, false), period(true, Method::kNaive, false),
      period(true, Method::kAdaptive, false), period(true, Method::kAdaptive, true));
}

// --- Table 1 and Figure 11 -----------------------------------------------------------------------

Experiment MakeExperiment(const Training& training, const std::string& cap) {
  const int batch = training.dp * training.micro_batches * training.micro_batch_size;
  Experiment experiment(training.model, training.dp, training.pp, training.micro_batches,
                        batch / training.samples_per_s, cap);
  const ModelLayout layout{.parallel = experiment.job.parallel,
                           .micro_batch_size = training.micro_batch_size,
                           .sequence = 1024};
  experiment.job.bamboo_fits =
      BambooBytes(Model(training.model), layout) <= UsableBytes(FindDevice("a100-80g").value());
  return experiment;
}

// What 80 GB hold at sequence 1,024.
std::string MemoryCap(const Training& training) {
  const ModelLayout layout{.parallel = {.data = training.dp, .pipeline = training.pp},
                           .micro_batch_size = training.micro_batch_size,
                           .sequence = 1024};
  return fmt::format(
      "{:.2f}", MicroBatchesThatFit(Model(training.model), FindDevice("a100-80g").value(), layout));
}

std::string Cells(const std::function<double(double every_s)>& goodput) {
  std::string cells;
  for (const double every_h : {6.0, 2.0, 0.5}) {
    cells += fmt::format(" {:.3f} |", goodput(every_h * kHour));
  }
  return cells;
}

void Table1Rows(const Training& training, double duration_h) {
  const auto simulated = [&](const std::string& cap, std::string_view policy) {
    const Experiment experiment = MakeExperiment(training, cap);
    return Cells([&](double every_s) {
      return experiment.Goodput(MonotoneFailures(32, every_s, duration_h * kHour), policy, true);
    });
  };
  const auto stated = [](const double(&values)[3]) {
    return fmt::format(" {:.3f} | {:.3f} | {:.3f} |", values[0], values[1], values[2]);
  };
  const std::string cap = MemoryCap(training);
  const std::string pp = std::to_string(training.pp);
  fmt::print("| {} | ReCycle, paper |{}\n", training.title, stated(training.recycle));
  fmt::print("| | recycle, {} micro-batches (what fits) |{}\n", cap, simulated(cap, "recycle"));
  fmt::print("| | recycle, {} micro-batches (PP) |{}\n", pp, simulated(pp, "recycle"));
  fmt::print("| | Oobleck, paper |{}\n", stated(training.oobleck));
  fmt::print("| | oobleck-published |{}\n", simulated(pp, "oobleck-published"));
  for (const char* policy : {"oobleck", "bamboo", "elastic", "fault-scaled"}) {
    fmt::print("| | {} |{}\n", policy, simulated(pp, policy));
  }
}

void Table1() {
  fmt::print(
      "## Table 1: a failure every 6 h, 2 h, 30 min\n\n32 GPUs, one lost every T, none comes "
      "back, for 8 h [ASSUMED]; throughput relative to fault-free. Layouts (PP x DP) 2 x 16, "
      "4 x 8, 8 x 4 and M = 32 are ASSUMED. Re-routing plans count at most as fast as 1F1B, "
      "which the paper runs when nothing has failed. bamboo 0: it does not fit.\n\n"
      "| model | system | 6 h | 2 h | 30 min |\n|---|---|---|---|---|\n");
  for (const Training& training : kTrainings) Table1Rows(training, 8);
  fmt::print(
      "\nSensitivity of recycle (what fits) to the run's length, which the paper does not "
      "state:\n\n| model | hours | 6 h | 2 h | 30 min |\n|---|---|---|---|---|\n");
  for (const Training& training : kTrainings) {
    const Experiment experiment = MakeExperiment(training, MemoryCap(training));
    for (const double hours : {6.0, 10.0, 12.0}) {
      fmt::print("| {} | {} |{}\n", training.title, hours, Cells([&](double every_s) {
                   return experiment.Goodput(MonotoneFailures(32, every_s, hours * kHour),
                                             "recycle", true);
                 }));
    }
  }
  fmt::print("\n");
}

// The cells of Table 1 in which another system is ahead of recycle.
void Table1Exceptions() {
  fmt::print("Cells in which another system is ahead of recycle (what fits):\n\n");
  int cells = 0;
  for (const Training& training : kTrainings) {
    const Experiment experiment = MakeExperiment(training, MemoryCap(training));
    for (const double every_h : {6.0, 2.0, 0.5}) {
      const JobTimeline timeline = MonotoneFailures(32, every_h * kHour, 8 * kHour);
      const double recycle = experiment.Goodput(timeline, "recycle", true);
      for (const char* policy : {"oobleck-published", "oobleck", "bamboo", "elastic"}) {
        const double other = experiment.Goodput(timeline, policy, true);
        if (other <= recycle) continue;
        ++cells;
        fmt::print("- {}, every {} h: {} {:.3f}, recycle {:.3f}\n", training.title, every_h, policy,
                   other, recycle);
      }
    }
  }
  fmt::print("{}\n", cells == 0 ? "- none\n" : "");
}

void Figure11() {
  constexpr double kPaper[] = {.81, .85, .66};
  fmt::print(
      "## Figure 11: the techniques one by one\n\nThe 30-minute column of Table 1 (its last "
      "bars are 0.81, 0.85, 0.66). Re-routing alone, then with decoupled back-propagation, "
      "then with the staggered optimizer; plans may be faster than 1F1B here.\n\n"
      "| model | memory | alone | + decoupled | + staggered | paper |\n"
      "|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < std::size(kTrainings); ++i) {
    const Training& training = kTrainings[i];
    const JobTimeline timeline = MonotoneFailures(32, kHour / 2, 8 * kHour);
    for (const std::string& cap : {MemoryCap(training), std::to_string(training.pp)}) {
      const Experiment experiment = MakeExperiment(training, cap);
      fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", training.title, cap,
                 experiment.Goodput(timeline, "recycle-naive", false),
                 experiment.Goodput(timeline, "recycle-no-stagger", false),
                 experiment.Goodput(timeline, "recycle", false), kPaper[i]);
    }
  }
  fmt::print("\n");
}

// --- Figure 10 -----------------------------------------------------------------------------------

void Figure10() {
  struct Scale {
    const char* title;
    int dp, pp, micro_batches;
  };
  constexpr Scale kScales[] = {{"18.4B, 256 GPUs", 8, 4, 24},
                               {"18.4B, 256 GPUs, M 48", 8, 4, 48},
                               {"39.1B, 512 GPUs", 16, 4, 48},
                               {"76.1B, 1024 GPUs", 32, 4, 28},
                               {"145.6B, 1536 GPUs", 24, 8, 48}};
  fmt::print(
      "## Figure 10: 1, 5 and 10% of the workers failed\n\nThroughput over fault-scaled by the "
      "plan table, with "
      "PP | 2 PP micro-batches a worker; TP 8, so a worker is 8 GPUs and 1% of 18.4B's 32 is "
      "one worker. Layouts: Megatron-LM's, PP 4 where it had fewer [ASSUMED]. "
      "`recycle plan --failures` finds up to 2% more for single failures.\n\n"
      "| model | 1% | 5% | 10% |\n|---|---|---|---|\n");
  for (const Scale& scale : kScales) {
    fmt::print("| {} |", scale.title);
    for (const double share : {0.01, 0.05, 0.10}) {
      const int workers = scale.dp * scale.pp;
      const int failures = std::max(1, static_cast<int>(std::lround(share * workers)));
      std::string cell;
      for (const int cap : {scale.pp, 2 * scale.pp}) {
        const PlanRequest request =
            MakeRequest(scale.dp, scale.pp, scale.micro_batches, kReal, std::to_string(cap));
        const PlanTable table = PlanTable::Make(request, failures).value();
        const double relative = ToUnits(FaultFreeOneFOneBPeriod(request).value()) /
                                ToUnits(table.Line(failures).period);
        const double scaled = 1 - static_cast<double>(failures) / workers;
        cell += fmt::format("{}{:.3f}", cell.empty() ? "" : " \\| ", relative / scaled);
      }
      fmt::print(" {} |", cell);
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

// --- replay, 405B, latency -----------------------------------------------------------------------

void GcpReplay(const std::string& traces) {
  const StatusOr<std::string> text = ReadWholeFile(traces + "/derived/gcp_scaled_6h_15to24.csv");
  RC_CHECK(text.ok()) << text.status();
  const FailureTrace trace = ReadTrace(*text, {}).value();
  fmt::print(
      "## The replay on Google Cloud: 24 GPUs, 6 hours\n\nThe trace is a stand-in of the same "
      "length and range (15 to 24 of 24). Goodput, and the ratio to Oobleck by its published "
      "curve; the paper says 1.46. Iterations are minutes long, so what happens to the one in "
      "progress decides: rerun repeats it, recycle repairs it.\n\n"
      "| model | PP x DP | oobleck-published | recycle-rerun | recycle | ratios |\n"
      "|---|---|---|---|---|---|\n");
  struct Layout {
    std::string_view model;
    int pp, dp;
    double samples_per_s;
  };
  constexpr Layout kLayouts[] = {{"gpt3-6.7b", 4, 6, 5.33},
                                 {"gpt3-6.7b", 2, 12, 5.33},
                                 {"gpt3-6.7b", 8, 3, 5.33},
                                 {"gpt3-medium", 2, 12, 27.58}};
  for (const Layout& layout : kLayouts) {
    const double iteration_s = 1024 / (layout.samples_per_s * 24 / 32);
    const Experiment experiment(layout.model, layout.dp, layout.pp, 32, iteration_s,
                                std::to_string(layout.pp));
    const JobTimeline timeline =
        MakeJobTimeline(
            trace, {.num_blocks = 24, .usable_after_s = experiment.constants.instance_usable_s})
            .value();
    const double oobleck = experiment.Goodput(timeline, "oobleck-published", false);
    const double rerun = experiment.Goodput(timeline, "recycle-rerun", false);
    const double repaired = experiment.Goodput(timeline, "recycle", false);
    fmt::print("| {} | {} x {} | {:.3f} | {:.3f} | {:.3f} | {:.2f}, {:.2f} |\n", layout.model,
               layout.pp, layout.dp, oobleck, rerun, repaired, rerun / oobleck, repaired / oobleck);
  }
  fmt::print("\n");
}

void Claim405B() {
  fmt::print(
      "## 405B: 30 failures absorbed\n\n16 stages x 64 pipelines, M 32; period with 30 dead "
      "workers over that of fault-free 1F1B. At most 1 means absorbed.\n\n"
      "| costs | PP micro-batches | 2 PP |\n|---|---|---|\n");
  for (const std::string_view costs : {kUnit, kReal}) {
    fmt::print("| {} |", costs);
    for (const int cap : {16, 32}) {
      const PlanRequest request = MakeRequest(64, 16, 32, costs, std::to_string(cap));
      const PlanTable table = PlanTable::Make(request, 30).value();
      fmt::print(" {:.3f} |", ToUnits(table.Line(30).period) /
                                  ToUnits(FaultFreeOneFOneBPeriod(request).value()));
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

void Latency() {
  fmt::print(
      "## Planner latency\n\n64 stages x 32 pipelines, plans for 0 to 512 failures; the paper "
      "needs 3,153 s on 96 cores. One core here.\n\n| M | templates | seconds |\n"
      "|---|---|---|\n");
  for (const int m : {64, 128}) {
    const PlanRequest request = MakeRequest(32, 64, m, kReal, "64");
    const TimePoint start = SystemClock().Now();
    const PlanTable table = PlanTable::Make(request, 512).value();
    fmt::print("| {} | {} | {:.2f} |\n", m, table.entries().size(),
               ToMilliseconds(SystemClock().Now() - start) / 1000);
  }
}

void Run(const std::string& traces) {
  fmt::print(
      "# The paper's tables and figures\n\nGenerated by bench/paper; the rules are those of "
      "[simulator.md](simulator.md). What the paper does not state is ASSUMED and said; nothing "
      "is tuned to match. Costs F : I : W : send = 1 : 1.05 : 0.85 : 0.05, scaled so that "
      "fault-free 1F1B gives the paper's fault-free throughput; only ratios are compared. Table 2 "
      "(simulated against real) and what follows it are by bench/paced, but the two sections "
      "behind it by bench/paced_promises.\n\n");
  RunningExample();
  Table1();
  Table1Exceptions();
  Figure11();
  Figure10();
  GcpReplay(traces);
  Claim405B();
  Latency();
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) {
  recycle::Run(argc > 1 ? argv[1] : "../shared/traces");
  return 0;
}
