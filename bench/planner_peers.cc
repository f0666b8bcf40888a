// The planner beside others on the same costs: zero-bubble's published heuristic, and the ways to
// re-route that ReCycle is measured against (planner/baselines.h defines them).
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/planner/job_testing.h"
#include "recycle/planner/planner.h"
#include "recycle/planner/strict_round_robin.h"

namespace recycle {
namespace {

using testing::At;
using testing::kReal;
using testing::MakeRequest;
using testing::PeriodOf;

// What zero-bubble's auto_schedule.py returns (best of its 8 option sets), its max_mem in units of
// p.
struct Golden {
  int pp;
  int m;
  std::string_view costs;
  double cap;  // times PP
  double period;
};

void ZeroBubble() {
  constexpr std::string_view kEqual = "F=1000,I=1000,W=1000,deferred=0.5";
  constexpr std::string_view kSends = "F=10,I=10,W=10,send=1,deferred=0.5";
  const std::vector<Golden> goldens = {
      {4, 8, kEqual, 1, 27000},     {4, 8, kEqual, 2, 24000},    {4, 12, kEqual, 1, 39000},
      {4, 12, kEqual, 2, 36000},    {8, 32, kEqual, 1, 103000},  {8, 32, kEqual, 2, 96000},
      {16, 64, kEqual, 1, 207000},  {16, 64, kEqual, 2, 192000}, {64, 128, kEqual, 1, 447000},
      {64, 128, kEqual, 2, 384000}, {4, 12, kSends, 1, 402},     {4, 12, kSends, 1.5, 376},
      {4, 12, kSends, 2, 366},      {8, 32, kSends, 1, 1058},    {8, 32, kSends, 1.5, 1004},
      {8, 32, kSends, 2, 968}};
  fmt::print("zero-bubble's heuristic: period at equal memory\n{:>9} {:>6} {:>10} {:>12} {:>12}\n",
             "job", "memory", "send", "zero-bubble", "ReCycle");
  for (const Golden& golden : goldens) {
    const double period = PeriodOf(
        MakeRequest(1, golden.pp, golden.m, golden.costs, std::to_string(golden.cap * golden.pp)));
    fmt::print("{:>9} {:>5}p {:>10} {:>12} {:>12} {}\n", fmt::format("p{}m{}", golden.pp, golden.m),
               golden.cap, golden.costs == kSends ? "0.1" : "0", golden.period, period,
               period <= golden.period + 1e-6 ? "" : "LONGER");
    std::fflush(stdout);
  }
}

double StrictRoundRobin(PlanRequest request) {
  request.options.staggered = false;
  const FlatJob job = MakeFlatJob(request).value();
  return ToUnits(MakeStrictRoundRobin(job)->figures.period);
}

void Rerouting() {
  fmt::print(
      "\nre-routing, period: fault-free 1F1B, naive, strict (decoupled, synchronous), ReCycle "
      "synchronous, ReCycle\n");
  struct Job {
    int dp;
    int pp;
    int m;
    std::string_view costs;
    std::string cap;
    std::vector<WorkerId> failed;
  };
  const std::vector<Job> jobs = {
      {3, 4, 6, "F=1", "none", {At(1, 2)}},
      {3, 4, 6, "F=1", "8", {At(1, 2)}},
      {4, 4, 8, kReal, "8", {At(1, 2), At(3, 0)}},
      {8, 8, 32, kReal, "8", {At(1, 2)}},
      {8, 8, 32, kReal, "16", {At(1, 2)}},
      {16, 2, 64, kReal, "4", {At(0, 0), At(1, 1), At(2, 1)}},
  };
  for (const Job& job : jobs) {
    PlanRequest request = MakeRequest(job.dp, job.pp, job.m, job.costs, job.cap);
    request.failed = job.failed;
    const double baseline = ToUnits(FaultFreeOneFOneBPeriod(request).value());
    PlanRequest naive = request;
    naive.method = Method::kNaive;
    PlanRequest synchronous = request;
    synchronous.options.staggered = false;
    fmt::print("{:>10} F{} cap {:>4}: {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n",
               fmt::format("{}x{} M{}", job.dp, job.pp, job.m), job.failed.size(), job.cap,
               baseline, PeriodOf(naive), StrictRoundRobin(request), PeriodOf(synchronous),
               PeriodOf(request));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace recycle

int main() {
  recycle::ZeroBubble();
  recycle::Rerouting();
  return 0;
}
