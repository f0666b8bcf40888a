// Figures of the planner on the jobs of its design: gaps to the proven bounds, throughput, the plan
// table and online replanning. Every plan is validated.
//
//   bench_planner               all sections
//   bench_planner gaps online   some of them
//
// docs/planner.md holds what it printed.
#include "recycle/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/list_scheduler.h"
#include "recycle/planner/normalization.h"
#include "recycle/planner/plan_table.h"
#include "recycle/planner/virtual_pipelines.h"

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
  return {
      .period = period, .gap_percent = 100 * (period / ToUnits(*plan->lower_bound) - 1), .ms = ms};
}

struct Case {
  int dp;
  int pp;
  int m;
  std::vector<int> failures;
};

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
  for (const auto& [dp, pp, m] :
       {std::tuple(3, 4, 6), {4, 4, 8}, {8, 8, 32}, {16, 16, 32}, {16, 16, 64}}) {
    for (const int f : {0, 1, 2}) {
      equal.push_back({dp, pp, m, std::vector<int>(static_cast<std::size_t>(pp), f)});
    }
  }
  PrintGaps("equal failures per stage (period, gap to the bound, time)", equal);
  std::vector<Case> last;
  std::vector<Case> even;
  for (const auto& [dp, pp, m, count] : {std::tuple(3, 4, 6, 1),
                                         {4, 4, 8, 1},
                                         {4, 4, 8, 2},
                                         {4, 4, 16, 1},
                                         {8, 8, 32, 1},
                                         {8, 8, 32, 2},
                                         {8, 8, 32, 4},
                                         {16, 16, 32, 3},
                                         {16, 16, 32, 13},
                                         {16, 16, 64, 3},
                                         {16, 16, 64, 13}}) {
    const FlatJob job = MakeFlatJob(MakeRequest(dp, pp, m)).value();
    last.push_back({dp, pp, m, CandidatePlacements(job, count)[0]});
    even.push_back({dp, pp, m, CandidatePlacements(job, count)[1]});
  }
  PrintGaps("few failures, placement last", last);
  PrintGaps("few failures, placement even", even);
}

// Best plan for 1, 5 and 10% failures at the template level, against fault-free 1F1B and ZB.
void Throughput() {
  fmt::print(
      "throughput, real costs: ratio to fault-free 1F1B / to its fault-scaled; to fault-free ZB of "
      "the same cap\n");
  for (const auto& [dp, pp, m] : {std::tuple(8, 8, 32),
                                  {12, 16, 64},
                                  {16, 16, 32},
                                  {16, 16, 64},
                                  {64, 16, 32},
                                  {32, 64, 64},
                                  {32, 64, 128}}) {
    const double baseline = ToUnits(FaultFreeOneFOneBPeriod(MakeRequest(dp, pp, m, kReal)).value());
    fmt::print("{:>14} 1F1B {:6.1f}", fmt::format("{}x{} M{}", dp, pp, m), baseline);
    for (const int cap : {pp, 2 * pp}) {
      const int workers = dp * pp;
      const PlanTable table =
          PlanTable::Make(MakeRequest(dp, pp, m, kReal, std::to_string(cap)), workers / 10).value();
      const double zero_bubble = ToUnits(table.Line(0).period);
      fmt::print(" | ZB({}) {:6.1f}", cap == pp ? "PP" : "2PP", zero_bubble);
      for (const int percent : {1, 5, 10}) {
        const int failures = workers * percent / 100;
        const double scaled = 1 - static_cast<double>(failures) / workers;
        const double period = ToUnits(table.Line(failures).period);
        fmt::print("  {}%: {:.1f} {:.2f}/{:.2f};{:.2f}", percent, period, baseline / period,
                   baseline / period / scaled, zero_bubble / period);
      }
    }
    fmt::print("\n");
  }
}

void OnTwoThreads(int count, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  const auto run = [&] {
    for (int n = next++; n < count; n = next++) work(n);
  };
  const std::jthread other(run);
  run();
}

void Table() {
  for (const int m : {64, 128}) {
    for (const int cap : {64, 128}) {
      const PlanRequest request = MakeRequest(32, 64, m, kReal, std::to_string(cap));
      const TimePoint start = SystemClock().Now();
      const PlanTable table = PlanTable::Make(request, 512).value();
      const TimePoint made = SystemClock().Now();
      int decreases = 0;
      for (int f = 1; f <= 512; ++f) decreases += table.Line(f).period < table.Line(f - 1).period;
      const TimePoint lined = SystemClock().Now();
      const Status checked = table.CheckAllLines(OnTwoThreads);
      RC_CHECK(checked.ok()) << checked;
      fmt::print(
          "table 32x64 M{} cap {}: {} templates in {:.0f} ms, lines {:.0f} ms, all 513 plans "
          "built, "
          "validated and timed in {:.0f} ms; T decreases {} times;",
          m, cap, table.entries().size(), ToMilliseconds(made - start),
          ToMilliseconds(lined - made), ToMilliseconds(SystemClock().Now() - lined), decreases);
      for (const int f : {0, 20, 102, 205, 512}) {
        fmt::print(" T({})={:.1f}", f, ToUnits(table.Line(f).period));
      }
      fmt::print(" file {} bytes\n", table.ToJson().size());
      std::fflush(stdout);
    }
  }
}

void Online() {
  PlanRequest request = MakeRequest(64, 16, 32, kReal, "16");
  const PlanTable table = PlanTable::Make(request, 30).value();
  FailPerStage(request, {0, 0, 0, 0, 0, 1});
  const FlatJob job = MakeFlatJob(request).value();
  const auto ms = [](auto work) {
    double least = 1e9;
    for (int n = 0; n < 5; ++n) {
      const TimePoint start = SystemClock().Now();
      work();
      least = std::min(least, ToMilliseconds(SystemClock().Now() - start));
    }
    return least;
  };
  const PlanTable::Entry& entry = *table.Find(1);
  const double order =
      ms([&] { ExpandTemplate(job, RunRecipe(job, entry.micro_batches, entry.recipe).value()); });
  const double expand = ms([&] { RC_CHECK(table.Expand(request.failed).ok()); });
  const double list = ms([&] {
    ListScheduler scheduler(job, MakeSurrogate(job, 1), Affinity::kPool);
    Order made;
    scheduler.Run(MakeRules(HeadPolicies().front(), job, scheduler.times()), made);
  });
  fmt::print(
      "online 64x16 M32, 1 failure: template run and expanded {:.2f} ms, whole plan with figures "
      "{:.2f} ms, list pass {:.2f} ms\n",
      order, expand, list);
}

void Sends() {
  fmt::print("gap of one pipeline of 32 micro-batches, PP 16, to the bound by send\n");
  for (const double send : {0.0, 0.05, 0.1, 0.2}) {
    for (const int cap : {16, 32}) {
      const PlanRequest request = MakeRequest(
          1, 16, 32, fmt::format("F=1,I=1.05,W=0.85,send={}", send), std::to_string(cap));
      const Result result = Solve(request);
      fmt::print("  send {:.2f} cap {}: {:.2f} ({:.2f}%) {:.0f} ms\n", send, cap, result.period,
                 result.gap_percent, result.ms);
    }
  }
}

void FreedAtInput() {
  fmt::print("memory freed at I: one pipeline of 32 micro-batches, PP 16, real costs, cap PP\n");
  for (const double deferred : {1.0, 0.75, 0.5, 0.25}) {
    const PlanRequest request = MakeRequest(
        1, 16, 32, fmt::format("F=1,I=1.05,W=0.85,send=0.05,deferred={}", deferred), "16");
    const Result result = Solve(request);
    fmt::print("  deferred {:.2f}: {:.2f} ({:.2f}%) {:.0f} ms\n", deferred, result.period,
               result.gap_percent, result.ms);
  }
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) {
  const std::set<std::string> wanted(argv + 1, argv + argc);
  const auto run = [&](const char* name, void (*section)()) {
    if (wanted.empty() || wanted.contains(name)) section();
  };
  run("table", recycle::Table);
  run("online", recycle::Online);
  run("throughput", recycle::Throughput);
  run("sends", recycle::Sends);
  run("freed", recycle::FreedAtInput);
  run("gaps", recycle::Gaps);
  return 0;
}
