// Speed of the job simulator, with the real planner behind it:
//
//   build/dev/bench/simulator [FOLDER]       the published traces' folder (default
//   ../shared/traces)
//
// 1. StepFun's 348 days with 400 servers under every policy; 2. 10,000 failures; 3. 1,000 months of
// 2,048 workers, each drawn anew; and the peak memory of it all.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "recycle/app/simulation_plans.h"
#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/base/file.h"
#include "recycle/planner/job_testing.h"
#include "recycle/simulator/random_failures.h"
#include "recycle/simulator/simulation.h"
#include "recycle/simulator/trace_file.h"

namespace recycle {
namespace {

constexpr double kMonthSeconds = 720 * 3600.0;

// A job of dp x pp workers with F = I = W = 100 ms, and its planner.
struct Bench {
  SimulatedJob job;
  PolicyConstants constants;
  PlanRequest request;

  Bench(int dp, int pp, int m)
      : request(testing::MakeRequest(dp, pp, m, "F=100,I=100,W=100", std::to_string(pp))) {
    job.parallel = request.parallel;
    job.micro_batches = m;
    job.costs = request.costs;
    job.costs.unit = "ms";
    job.layers = 4 * pp;
    constants = ConstantsFor(job);
  }

  double Goodput(const FailureTrace& trace, SimulationPlanner& planner, std::string_view policy,
                 int* failures = nullptr) const {
    const StatusOr<JobTimeline> timeline =
        MakeJobTimeline(trace, {.num_blocks = job.num_blocks(), .usable_after_s = 45});
    RC_CHECK(timeline.ok()) << timeline.status();
    if (failures != nullptr) *failures += timeline->failures;
    const StatusOr<PolicyResult> result =
        Simulate({.job = job, .constants = constants, .planner = planner}, *timeline, policy);
    RC_CHECK(result.ok()) << result.status();
    return result->goodput;
  }
};

double SecondsSince(TimePoint start) { return ToMilliseconds(SystemClock().Now() - start) / 1000; }

void StepFun(const std::string& folder) {
  const StatusOr<std::string> text = ReadWholeFile(folder + "/stepfun/fault_trace.json");
  if (!text.ok()) {
    fmt::print("StepFun: no trace ({})\n", text.status().ToString());
    return;
  }
  const TimePoint start = SystemClock().Now();
  const Bench bench(25, 16, 64);
  SimulationPlans plans(bench.request, /*search=*/false);
  const StatusOr<FailureTrace> trace = ReadTrace(*text, {.num_nodes = 400});
  RC_CHECK(trace.ok()) << trace.status();
  fmt::print("StepFun, 25 x 16, M 64, F = I = W = 100 ms, cap PP:");
  for (const std::string_view policy : PolicyNames()) {
    fmt::print(" {} {:.3f}", policy, bench.Goodput(*trace, plans, policy));
  }
  fmt::print("\n  348 days, every policy: {:.2f} s\n", SecondsSince(start));
}

void TenThousandFailures() {
  const TimePoint start = SystemClock().Now();
  const Bench bench(32, 16, 64);
  SimulationPlans plans(bench.request, /*search=*/false);
  const StatusOr<FailureTrace> trace = DrawFailures(
      {.num_nodes = 512, .mtbf_s = 1000 * 3600, .mttr_s = 10 * 3600, .seed = 1}, 20'000 * 3600.0);
  RC_CHECK(trace.ok()) << trace.status();
  int failures = 0;
  const double goodput = bench.Goodput(*trace, plans, "recycle", &failures);
  fmt::print("{} failures of 32 x 16, recycle (goodput {:.3f}): {:.2f} s\n", failures, goodput,
             SecondsSince(start));
}

void ThousandMonths() {
  const TimePoint start = SystemClock().Now();
  const Bench bench(32, 64, 64);
  SimulationPlans plans(bench.request, /*search=*/false);
  std::vector<double> goodputs;
  int failures = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const StatusOr<FailureTrace> trace =
        DrawFailures({.num_nodes = 2048, .mtbf_s = 5000 * 3600, .mttr_s = 24 * 3600, .seed = seed},
                     kMonthSeconds);
    RC_CHECK(trace.ok()) << trace.status();
    goodputs.push_back(bench.Goodput(*trace, plans, "recycle", &failures));
  }
  std::sort(goodputs.begin(), goodputs.end());
  fmt::print(
      "1,000 months of 32 x 64, {} failures, recycle (goodput {:.3f}, 5% {:.3f}, 95% "
      "{:.3f}): {:.1f} s\n",
      failures, goodputs[500], goodputs[50], goodputs[950], SecondsSince(start));
}

void Run(const std::string& folder) {
  StepFun(folder);
  TenThousandFailures();
  ThousandMonths();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory: {} MB\n", usage.ru_maxrss / 1024);
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) {
  recycle::Run(argc > 1 ? argv[1] : "../shared/traces");
  return 0;
}
