// How far plans are from the proven bounds.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "planner_sections.h"
#include "recycle/base/check.h"
#include "recycle/planner/exact.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/normalization.h"
#include "recycle/planner/stragglers.h"
#include "recycle/planner/virtual_pipelines.h"

namespace recycle {
namespace {

using testing::At;
using testing::FailPerStage;
using testing::kReal;
using testing::kUnit;
using testing::MakeRequest;

constexpr std::string_view kAsymmetric = "F=1,I=1.2,W=0.7,send=0.04";

struct Case {
  int dp;
  int pp;
  int m;
  std::vector<int> failures;
};

struct Limits {  // percent
  double real_pp;
  double real_2pp;
};

void GapsOf(const std::string& where, const Case& c, Limits limits, Verdicts& verdicts) {
  int total = 0;
  for (const int f : c.failures) total += f;
  for (const bool real : {false, true}) {
    for (const int times : {1, 2}) {
      PlanRequest request =
          MakeRequest(c.dp, c.pp, c.m, real ? kReal : kUnit, std::to_string(times * c.pp));
      FailPerStage(request, c.failures);
      const FlatJob job = MakeFlatJob(request).value();
      const double single =
          ToUnits(MakeTemplate(job, TemplateLength(job), TemplateEffort::kHead)->figures.period);
      const Solved solved = Solve(request);
      RC_CHECK(solved.period <= single) << solved.period << " " << single;
      verdicts.AtMost(fmt::format("{} F{} {} {} cap {}: {:.2f} in {:.0f} ms, gap %",
                                  JobName(c.dp, c.pp, c.m), total, where, real ? "real" : "unit",
                                  times == 1 ? "PP" : "2PP", solved.period, solved.ms),
                      solved.gap_percent,
                      !real && where != "even" ? 0
                      : times == 1             ? limits.real_pp
                                               : limits.real_2pp);
    }
  }
}

}  // namespace

void EqualFailures(Verdicts& verdicts) {
  for (const auto& [dp, pp, m] :
       {std::tuple(3, 4, 6), {4, 4, 8}, {8, 8, 32}, {16, 16, 32}, {16, 16, 64}, {32, 64, 64}}) {
    for (const int f : {0, 1, 2}) {
      GapsOf("equal", {dp, pp, m, std::vector<int>(static_cast<std::size_t>(pp), f)}, {2.5, 1.0},
             verdicts);
    }
  }
  verdicts.Equal("16x16 M32, unit costs, cap PP: period",
                 Solve(MakeRequest(16, 16, 32, kUnit, "16")).period, 111);
  verdicts.Equal("16x16 M32, unit costs, cap 2PP: period",
                 Solve(MakeRequest(16, 16, 32, kUnit, "32")).period, 96);
}

void FewFailures(Verdicts& verdicts) {
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
    GapsOf("last", {dp, pp, m, CandidatePlacements(job, count)[0]}, {1.3, 0}, verdicts);
    GapsOf("even", {dp, pp, m, CandidatePlacements(job, count)[1]}, {4, 2}, verdicts);
  }
}

void RunningExample(Verdicts& verdicts) {
  constexpr std::array<double, 4> kNaive = {29, 36, 36, 36};
  for (int stage = 0; stage < 4; ++stage) {
    PlanRequest request = MakeRequest(3, 4, 6, kUnit, "8");
    request.failed = {At(1, stage)};
    verdicts.Equal(fmt::format("3x4 M6, failed 1:{}, cap 2PP: period", stage),
                   Solve(request).period, 27);
    request = MakeRequest(3, 4, 6);
    request.failed = {At(1, stage)};
    request.method = Method::kNaive;
    verdicts.Equal(fmt::format("3x4 M6, failed 1:{}, naive: period", stage), Solve(request).period,
                   kNaive[static_cast<std::size_t>(stage)]);
  }
  PlanRequest request = MakeRequest(3, 4, 6, kUnit, "4");
  request.failed = {At(1, 1)};
  verdicts.Equal("3x4 M6, failed 1:1, cap PP: period", Solve(request).period, 28);
  for (const auto& [cap, most] : {std::pair("8", 103.6), {"16", 98.65}}) {
    request = MakeRequest(5, 8, 20, kAsymmetric, cap);
    FailPerStage(request, {0, 1, 0, 0, 2, 0, 0, 1});
    const Solved solved = Solve(request);
    verdicts.AtMost(fmt::format("5x8 M20, 4 uneven failures, cap {} ({:.2f}%, {:.0f} ms): period",
                                cap, solved.gap_percent, solved.ms),
                    solved.period, most);
  }
}

// One pipeline's schedule by the time a send takes: the periods a prototype reached.
void Sends(Verdicts& verdicts) {
  for (const auto& [send, gap_pp, gap_2pp] :
       {std::tuple(0.0, 0.0, 0.9), {0.05, 1.3, 0.0}, {0.1, 2.6, 0.0}, {0.2, 5.1, 0.8}}) {
    for (const int times : {1, 2}) {
      const PlanRequest request = MakeRequest(
          1, 16, 32, fmt::format("F=1,I=1.05,W=0.85,send={}", send), std::to_string(16 * times));
      const Solved solved = Solve(request);
      verdicts.AtMost(fmt::format("1x16 M32 send {} cap {}: {:.2f} in {:.0f} ms, gap %", send,
                                  times == 1 ? "PP" : "2PP", solved.period, solved.ms),
                      solved.gap_percent, times == 1 ? gap_pp : gap_2pp);
    }
  }
}

void FreedAtInput(Verdicts& verdicts) {
  for (const int times : {1, 2}) {
    double before = 0;
    for (const double deferred : {1.0, 0.75, 0.66, 0.5, 0.25}) {
      const PlanRequest request =
          MakeRequest(1, 16, 32, fmt::format("F=1,I=1.05,W=0.85,send=0.05,deferred={}", deferred),
                      std::to_string(16 * times));
      const Solved solved = Solve(request);
      verdicts.AtMost(
          fmt::format("1x16 M32 real cap {} deferred {} ({:.2f}%, {:.0f} ms): period",
                      times == 1 ? "PP" : "2PP", deferred, solved.gap_percent, solved.ms),
          solved.period, before > 0 ? before : solved.period);
      before = solved.period;
    }
  }
}

// Rebalancing by speed against what strict affinity can do, and against eviction.
void Stragglers(Verdicts& verdicts) {
  for (const auto& [factor, most_pp, most_2pp] :
       {std::tuple(1.25, 110.0, 99.0), {1.5, 112.0, 102.0}, {2.0, 113.0, 104.0}}) {
    for (const int cap : {8, 16}) {
      PlanRequest request = MakeRequest(8, 8, 32, kReal, std::to_string(cap));
      request.slow = {{At(3, 2), factor}};
      const StragglerAdvice advice = JudgeStragglers(request).value();
      const StragglerVerdict& verdict = advice.verdicts.front();
      verdicts.AtMost(fmt::format("8x8 M32 real cap {}, 3:2 x{} ({:.2f} without it): period", cap,
                                  factor, ToUnits(*verdict.period_evicted)),
                      ToUnits(verdict.period_kept), cap == 8 ? most_pp : most_2pp);
    }
  }
}

// One failure at each stage of small jobs, both memories, both kinds of step: how many plans the
// integer program proves optimal.
void ExactSolver(Verdicts& verdicts) {
  int proven = 0;
  int shorter = 0;
  int count = 0;
  for (const auto& [dp, pp, m] :
       {std::tuple(2, 2, 2), {2, 2, 4}, {3, 2, 4}, {2, 3, 3}, {2, 3, 4}, {3, 3, 3}, {2, 4, 4}}) {
    for (int stage = 0; stage < pp; ++stage) {
      for (const std::string& cap : {std::string("1f1b"), std::to_string(pp)}) {
        for (const bool staggered : {true, false}) {
          PlanRequest request = MakeRequest(dp, pp, m, kUnit, cap);
          request.failed = {At(0, stage)};
          request.options.staggered = staggered;
          request.affinity = Affinity::kPool;
          request.time_limit = std::chrono::seconds(25);
          const double heuristic = Solve(request).period;
          const StatusOr<ExactResult> exact = SolveExact(request);
          RC_CHECK(exact.ok()) << exact.status();
          ++count;
          proven += exact->optimal ? 1 : 0;
          const double best = ToUnits(*exact->plan.period);
          shorter += best < heuristic ? 1 : 0;
          if (exact->optimal && best == heuristic) continue;
          fmt::print("  {} failed 0:{} cap {} {}: ours {:g}, exact {}\n", JobName(dp, pp, m), stage,
                     cap, staggered ? "staggered" : "synchronous", heuristic, exact->status);
        }
      }
    }
  }
  verdicts.Equal("plans that the exact solver could shorten", shorter, 0);
  verdicts.AtLeast(fmt::format("plans proven optimal, of {}", count), proven, count - 2);
}

}  // namespace recycle
