// What plans and planning cost: throughput of the best plans, the plan table, online replanning.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "planner_sections.h"
#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/list_scheduler.h"
#include "recycle/planner/plan_table.h"
#include "recycle/planner/virtual_pipelines.h"

namespace recycle {
namespace {

using testing::FailPerStage;
using testing::kReal;
using testing::MakeRequest;

// What a prototype reached at real costs: periods without failures, and for 1, 5 and 10% failures
// the throughput relative to fault-free 1F1B.
struct Reached {
  int dp;
  int pp;
  int m;
  double one_f_one_b;
  double zero_bubble[2];  // cap PP, 2PP
  double relative[2][3];
};
constexpr Reached kReached[] = {
    {8, 8, 32, 116.5, {102.6, 96.0}, {{1.01, 1.00, 1.00}, {1.07, 1.07, 1.07}}},
    {12, 16, 64, 236.5, {206.6, 192.3}, {{1.06, 1.06, .97}, {1.15, 1.14, 1.04}}},
    {16, 16, 32, 140.7, {113.8, 99.5}, {{1.16, 1.15, 1.10}, {1.33, 1.32, 1.25}}},
    {16, 16, 64, 236.5, {206.6, 192.3}, {{1.07, 1.07, 1.00}, {1.16, 1.15, 1.08}}},
    {64, 16, 32, 140.7, {113.8, 99.5}, {{1.21, 1.15, 1.12}, {1.39, 1.32, 1.28}}},
    {32, 64, 64, 380.8, {267.5, 267.5}, {{1.39, 1.34, 1.26}, {1.40, 1.38, 1.33}}},
    {32, 64, 128, 572.7, {459.4, 399.6}, {{1.21, 1.18, 1.11}, {1.40, 1.36, 1.28}}}};

void OnTwoThreads(int count, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  const auto run = [&] {
    for (int n = next++; n < count; n = next++) work(n);
  };
  const std::jthread other(run);
  run();
}

// Processor time of the program so far. Divided by the threads that work it is the time on a
// machine that does nothing else, whatever this one does.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The least processor time of five, in ms.
double LeastMs(const std::function<void()>& work) {
  double least = 1e9;
  for (int n = 0; n < 5; ++n) {
    const double start = CpuSeconds();
    work();
    least = std::min(least, 1e3 * (CpuSeconds() - start));
  }
  return least;
}

}  // namespace

void Throughput(Verdicts& verdicts) {
  for (const Reached& row : kReached) {
    const std::string name = JobName(row.dp, row.pp, row.m);
    const double baseline =
        ToUnits(FaultFreeOneFOneBPeriod(MakeRequest(row.dp, row.pp, row.m, kReal)).value());
    verdicts.AtMost(name + " fault-free 1F1B: off by", std::abs(baseline - row.one_f_one_b), 0.06);
    for (const int times : {1, 2}) {
      const std::string cap = times == 1 ? "PP" : "2PP";
      const int workers = row.dp * row.pp;
      const PlanRequest request =
          MakeRequest(row.dp, row.pp, row.m, kReal, std::to_string(times * row.pp));
      const PlanTable table = PlanTable::Make(request, (workers + 9) / 10).value();
      const double zero_bubble = ToUnits(table.Line(0).period);
      verdicts.AtMost(fmt::format("{} cap {} fault-free: period", name, cap), zero_bubble,
                      row.zero_bubble[times - 1] * 1.02);
      for (const int n : {0, 1, 2}) {
        const int percent = n == 0 ? 1 : 5 * n;
        const int failures = (workers * percent + 99) / 100;
        const double scaled = 1 - static_cast<double>(failures) / workers;
        double period = ToUnits(table.Line(failures).period);
        // Fewer failures than stages: the table pays for the worst stage, a search need not.
        if (failures < row.pp) period = std::min(period, Solve(request, failures).period);
        verdicts.AtLeast(
            fmt::format("{} cap {} {}%: {:.1f}; to scaled {:.2f}, to ZB {:.2f}; to 1F1B", name, cap,
                        percent, period, baseline / period / scaled, zero_bubble / period),
            baseline / period, row.relative[times - 1][n] * 0.98);
      }
    }
  }
  for (const int times : {1, 2}) {
    const PlanRequest request = MakeRequest(64, 16, 32, kReal, std::to_string(16 * times));
    const double baseline = ToUnits(FaultFreeOneFOneBPeriod(request).value());
    verdicts.AtMost(fmt::format("64x16 M32, 30 failures, cap {}: period to 1F1B's", 16 * times),
                    ToUnits(PlanTable::Make(request, 30)->Line(30).period) / baseline,
                    times == 1 ? 0.86 : 0.75);
  }
}

void Table(Verdicts& verdicts) {
  for (const int m : {64, 128}) {
    for (const int cap : {64, 128}) {
      const std::string name = fmt::format("{} cap {}, 0..512 failures", JobName(32, 64, m), cap);
      const PlanRequest request = MakeRequest(32, 64, m, kReal, std::to_string(cap));
      const double start = CpuSeconds();
      const PlanTable table = PlanTable::Make(request, 512).value();
      int decreases = 0;
      for (int f = 1; f <= 512; ++f) decreases += table.Line(f).period < table.Line(f - 1).period;
      const double made_s = CpuSeconds() - start;
      const TimePoint made = SystemClock().Now();
      const Status checked = table.CheckAllLines(OnTwoThreads);
      RC_CHECK(checked.ok()) << checked;
      const double elapsed_s = ToMilliseconds(SystemClock().Now() - made) / 1e3;
      const double checked_s = (CpuSeconds() - start - made_s) / 2;
      verdicts.AtMost(fmt::format("{}: {} templates, s", name, table.entries().size()), made_s, 1);
      verdicts.AtMost(
          fmt::format("{}: all built and checked ({:.1f} s elapsed), s", name, elapsed_s),
          checked_s, m == 64 ? 5 : 20);
      verdicts.Equal(name + ": times T(F) decreases", decreases, 0);
      fmt::print("   ");
      for (const int f : {0, 20, 102, 205, 512}) {
        const TableLine line = table.Line(f);
        fmt::print(" T({})={:.1f} ({:.2f}%)", f, ToUnits(line.period),
                   100 * (ToUnits(line.period) / ToUnits(line.lower_bound) - 1));
      }
      fmt::print("\n");
    }
  }
}

void Online(Verdicts& verdicts) {
  for (const int cap : {16, 32}) {
    PlanRequest request = MakeRequest(64, 16, 32, kReal, std::to_string(cap));
    const PlanTable table = PlanTable::Make(request, 30).value();
    FailPerStage(request, {0, 0, 0, 0, 0, 1});
    request.effort = Effort::kOnline;
    const FlatJob job = MakeFlatJob(request).value();
    const std::string name = fmt::format("64x16 M32 cap {}, 1 failure:", cap);
    const PlanTable::Entry& entry = *table.Find(1);
    verdicts.AtMost(fmt::format("{} template run and expanded, ms", name), LeastMs([&] {
                      ExpandTemplate(job,
                                     RunRecipe(job, entry.micro_batches, entry.recipe).value());
                    }),
                    5);
    verdicts.AtMost(fmt::format("{} whole plan from the table, ms", name),
                    LeastMs([&] { RC_CHECK(table.Expand(request.failed).ok()); }), 50);
    verdicts.AtMost(fmt::format("{} whole plan without a table, ms", name),
                    LeastMs([&] { RC_CHECK(MakePlan(request).ok()); }), 50);
    verdicts.AtMost(fmt::format("{} list pass, ms", name), LeastMs([&] {
                      ListScheduler scheduler(job, MakeSurrogate(job, 1), Affinity::kPool);
                      Order made;
                      scheduler.Run(MakeRules(HeadPolicies().front(), job, scheduler.times()),
                                    made);
                    }),
                    50);
    // So far from its bound that naive re-routing has to be made and compared.
    request.failed.clear();
    FailPerStage(request, {60});
    verdicts.AtMost(fmt::format("64x16 M32 cap {}, 60 of a stage: whole plan, ms", cap),
                    LeastMs([&] { RC_CHECK(MakePlan(request).ok()); }), 50);
  }
}

}  // namespace recycle
