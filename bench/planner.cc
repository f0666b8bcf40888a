// Figures of the planner on the jobs of its design: gaps to the proven bounds, throughput, the plan table
// and online replanning. Every plan is validated.
//
//   bench_planner               all sections
//   bench_planner gaps online   some of them
//
// docs/planner.md holds what it printed.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/planner.h"

namespace recycle {
namespace {

using testing::FailPerStage;
using testing::kReal;
using testing::kUnit;
using testing::MakeRequest;

struct Result {
  double period = 0;
  double gap_percent = 0;
  double ms = 0;
};

Result Solve(const PlanRequest& request) {
  const TimePoint start = SystemClock().Now();
  const StatusOr<Plan> plan = MakePlan(request);
  const double ms = ToMilliseconds(SystemClock().Now() - start);
  RC_CHECK(plan.ok()) << plan.status();
  RC_CHECK(Validate(*plan).ok()) << Validate(*plan);
  const double period = ToUnits(*plan->period);
  return {.period = period,
          .gap_percent = 100 * (period / ToUnits(*plan->lower_bound) - 1),
          .ms = ms};
}

struct Case {
  int dp;
  int pp;
  int m;
  std::vector<int> failures;
};

// `count` failures on pp stages: the last stages get one more.
std::vector<int> Last(int pp, int count) {
  std::vector<int> failures(static_cast<std::size_t>(pp), count / pp);
  for (int i = pp - count % pp; i < pp; ++i) ++failures[static_cast<std::size_t>(i)];
  return failures;
}

std::vector<int> Even(int pp, int count) {
  std::vector<int> failures(static_cast<std::size_t>(pp), count / pp);
  const int rest = count % pp;
  for (int z = 0; z < rest; ++z) {
    ++failures[static_cast<std::size_t>((2 * z + 1) * pp / (2 * rest))];
  }
  return failures;
}

void PrintGaps(const char* title, const std::vector<Case>& cases) {
  fmt::print("{}\n{:>16} {:>5} | {:>22} | {:>22} | {:>22} | {:>22}\n", title, "job", "F", "unit PP",
             "unit 2PP", "real PP", "real 2PP");
  for (const Case& c : cases) {
    int total = 0;
    for (const int f : c.failures) total += f;
    fmt::print("{:>16} {:>5}", fmt::format("{}x{} M{}", c.dp, c.pp, c.m), total);
    for (const std::string_view costs : {kUnit, kReal}) {
      for (const int cap : {c.pp, 2 * c.pp}) {
        PlanRequest request = MakeRequest(c.dp, c.pp, c.m, costs, std::to_string(cap));
        FailPerStage(request, c.failures);
        const Result result = Solve(request);
        fmt::print(" | {:8.2f} {:5.2f}% {:4.0f}ms", result.period, result.gap_percent, result.ms);
        std::fflush(stdout);
      }
    }
    fmt::print("\n");
  }
}

void Gaps() {
  std::vector<Case> equal;
  for (const auto& [dp, pp, m] : {std::tuple(3, 4, 6), {4, 4, 8}, {8, 8, 32}, {16, 16, 32}, {16, 16, 64}}) {
    for (const int f : {0, 1, 2}) {
      equal.push_back({dp, pp, m, std::vector<int>(static_cast<std::size_t>(pp), f)});
    }
  }
  PrintGaps("equal failures per stage (period, gap to the bound, time)", equal);
  std::vector<Case> last;
  std::vector<Case> even;
  for (const auto& [dp, pp, m, count] :
       {std::tuple(3, 4, 6, 1), {4, 4, 8, 1}, {4, 4, 8, 2}, {4, 4, 16, 1}, {8, 8, 32, 1}, {8, 8, 32, 2},
        {8, 8, 32, 4}, {16, 16, 32, 3}, {16, 16, 32, 13}, {16, 16, 64, 3}, {16, 16, 64, 13}}) {
    last.push_back({dp, pp, m, Last(pp, count)});
    even.push_back({dp, pp, m, Even(pp, count)});
  }
  PrintGaps("few failures, placement last", last);
  PrintGaps("few failures, placement even", even);
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) {
  const std::set<std::string> wanted(argv + 1, argv + argc);
  const auto run = [&](const char* name, void (*section)()) {
    if (wanted.empty() || wanted.contains(name)) section();
  };
  run("gaps", recycle::Gaps);
  return 0;
}
