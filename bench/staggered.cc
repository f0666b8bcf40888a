// What staggered steps gain after a failure, and what the plan says they gain: the paper's running
// example (3 pipelines, 4 stages, 6 micro-batches, worker 1:2 dead) as two real jobs, one staggered
// and one synchronous. Every action is stretched by waiting, so that the machine's few cores do not
// decide the order of things.
//
//   build/dev/bench/staggered [STRETCH]        (default 12; a minute or two)
//
// Prints, for each job, the median time of the iterations that staggered steps are used in, and the
// period that the timeline gives its plan with durations as measured in the same run (medians of
// the trace, by stage and kind); then both gains.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

#include "job.h"
#include "median.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/timeline.h"

namespace recycle::testing {
namespace {

constexpr int kFirst = 14;  // stages have gone ahead of their verdicts for two iterations
constexpr int kLast = 24;

JobOptions MakeJob(bool staggered, int stretch) {
  JobOptions options = {.data = 3,
                        .pipeline = 4,
                        .micro_batches = 6,
                        .micro_batch_size = 2,
                        .iterations = kLast + 1,
                        .layers = 8,
                        .hidden = 96,
                        .sequence = 64,
                        .staggered = staggered,
                        .clip = 1000};
  for (int k = 0; k < options.data; ++k) {
    for (int i = 0; i < options.pipeline; ++i) {
      options.inject.push_back(fmt::format("slow x{} {}:{} at F of iteration 1", stretch, k, i));
    }
  }
  options.inject.emplace_back("kill 1:2 at F of iteration 2");
  return options;
}

struct Result {
  double measured_ms = 0;
  double planned_ms = 0;
};

// The plan after the death, with durations as the trace shows them.
double PlannedPeriod(const Job& job) {
  Plan plan = ReadPlanFile((job.run_folder() / "plans" / "g2.json").string()).value();
  std::map<std::pair<int, ActionKind>, std::vector<double>> durations;
  for (const nlohmann::json& event : job.TraceEvents()) {
    const int iteration = event.at("args").at("iteration");
    if (iteration < kFirst || iteration > kLast) continue;
    const Action action = *ParseAction(event.at("args").at("action").get<std::string>());
    durations[{action.stage.value(), action.kind}].push_back(event.at("dur").get<double>() / 1e3);
  }
  for (int stage = 0; stage < plan.parallel.num_stages(); ++stage) {
    StageCosts& costs = plan.costs.stages[static_cast<std::size_t>(stage)];
    const auto ticks = [&](ActionKind kind) {
      return static_cast<Ticks>(std::llround(Median(durations.at({stage, kind})) * kTicksPerUnit));
    };
    costs.forward = ticks(ActionKind::kForward);
    costs.backward_input = ticks(ActionKind::kBackwardInput);
    costs.backward_weight = ticks(ActionKind::kBackwardWeight);
  }
  return static_cast<double>(ComputeFigures(plan).value().period) / kTicksPerUnit;
}

Result Measure(bool staggered, int stretch) {
  Job job(MakeJob(staggered, stretch));
  if (const int code = job.Run(); code != 0) {
    fmt::print("ended with {}:\n{}\n", code, job.Output());
    std::exit(1);
  }
  std::vector<double> times;
  for (const nlohmann::json& line : job.Lines("metrics.jsonl")) {
    const int iteration = line.at("iteration");
    if (iteration >= kFirst && iteration <= kLast) times.push_back(line.at("iteration_ms"));
  }
  return {Median(times), PlannedPeriod(job)};
}

int Run(int stretch) {
  const Result synchronous = Measure(false, stretch);
  const Result staggered = Measure(true, stretch);
  const auto print = [](const char* name, const Result& result) {
    fmt::print("{:12} {:8.1f} ms an iteration, {:8.1f} ms by its plan\n", name, result.measured_ms,
               result.planned_ms);
  };
  print("synchronous", synchronous);
  print("staggered", staggered);
  fmt::print("gain         {:8.3f} x measured, {:8.3f} x by the plans\n",
             synchronous.measured_ms / staggered.measured_ms,
             synchronous.planned_ms / staggered.planned_ms);
  return 0;
}

}  // namespace
}  // namespace recycle::testing

int main(int argc, char** argv) {
  return recycle::testing::Run(argc > 1 ? std::atoi(argv[1]) : 12);
}
