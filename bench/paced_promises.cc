// Two promises of the planner, held against real jobs of paced workers: what staggered steps gain,
// and what is left of a job's speed when a worker turns slow. Prints the sections of docs/paper.md
// behind "Table 2", each row with what is asked of it, and ends with 1 if one misses that:
//
//   build/dev/bench/paced_promises
//
// Takes some minutes, most of them waiting.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "paced_jobs.h"
#include "recycle/planner/planner.h"

namespace recycle::testing {
namespace {

const char* PassOrFail(bool met) { return met ? "PASS" : "FAIL"; }

// Is the gain as planned?
bool GainRow(const Layout& layout, int failures) {
  JobOptions options = OptionsOf(layout, kLast + 1, failures);
  Job staggered_job(options);
  const Periods staggered = Measure(staggered_job, layout);
  options.staggered = false;
  Job synchronous_job(options);
  const Periods synchronous = Measure(synchronous_job, layout);
  const double measured = synchronous.stamped_ms / staggered.stamped_ms;
  const double planned = synchronous.planned_ms / staggered.planned_ms;
  const double error = ErrorPercent(measured, planned);
  const bool met = std::abs(error) <= 0.5;
  fmt::print("| {} x {}, M {} | {} | {:.1f} | {:.1f} | {:.4f} | {:.4f} | {:+.3f}% | {} |\n",
             layout.data, layout.pipeline, layout.micro_batches, failures, synchronous.stamped_ms,
             staggered.stamped_ms, measured, planned, error, PassOrFail(met));
  std::fflush(stdout);
  return met;
}

bool StaggeredGain() {
  fmt::print(
      "\n## Staggered against synchronous steps\n\nThe jobs of Table 2 once more, with the same "
      "failures and synchronous steps: what staggered steps gain in the workers' time, and by the "
      "timelines of both jobs' plans. Asked: the same to 0.5%.\n\n"
      "| pipelines x stages | failed | synchronous | staggered | gain | by the plans | error | |\n"
      "|---|---|---|---|---|---|---|---|\n");
  bool all_met = true;
  for (const Layout& layout : Layouts()) {
    for (const int failures : {1, 3}) all_met = GainRow(layout, failures) && all_met;
  }
  return all_met;
}

// --- a slow worker -------------------------------------------------------------------------------

// What the planner finds when it may search, for 1:2 at half the speed of all others.
double BestWithSlowMs(const Layout& layout) {
  PlanRequest request;
  request.parallel = {.data = layout.data, .pipeline = layout.pipeline};
  request.micro_batches = layout.micro_batches;
  request.costs = Costs(layout.pipeline, 100);
  request.slow = {{.worker = {PipelineId(1), StageId(2)}, .factor = 2}};
  return ToUnits(MakePlan(request).value().period.value());
}

// Is it named soon, and spared well? Without `rebalances` nothing is asked.
bool SlowRow(const Layout& layout, bool rebalances) {
  constexpr int kSlowFrom = 5;
  JobOptions options = OptionsOf(layout, kLast + 1, /*failures=*/0);
  options.inject = {fmt::format("slow x2 1:2 at F of iteration {}", kSlowFrom)};
  if (rebalances) options.arguments = {"--set", "resilience.slow_factor=1.5"};
  Job job(options);
  const Periods periods = Measure(job, layout);
  std::string named = "never";
  bool met = true;
  if (rebalances) {
    const auto straggler = job.Events("straggler");
    const auto resumed = job.Events("resumed");
    if (straggler.size() != 1 || resumed.size() != 2) Fail(job, "not named once");
    const int within = resumed[1].at("iteration").get<int>() - kSlowFrom;
    named = fmt::format("{} ({} iterations, score {:.1f})",
                        straggler[0].at("worker").get<std::string>(), within,
                        straggler[0].at("score").get<double>());
    met = straggler[0].at("worker") == "1:2" && within <= 10;
  }
  const double best_ms = BestWithSlowMs(layout);
  const double share = best_ms / periods.stamped_ms;
  met = met && (!rebalances || share >= 0.9);
  fmt::print("| {} x {}, M {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.3f} | {} |\n", layout.data,
             layout.pipeline, layout.micro_batches, rebalances ? "1.5" : "none", named, best_ms,
             periods.planned_ms, periods.stamped_ms, share, rebalances ? PassOrFail(met) : "");
  std::fflush(stdout);
  return met;
}

bool SlowWorkers() {
  fmt::print(
      "\n## A slow worker\n\nFrom iteration 5 on everything that worker 1:2 computes takes twice "
      "as long (fault `slow x2`). Asked: it is named within 10 iterations, and then the job gets "
      "at least 0.9 of the throughput that the planner finds for such a worker when it may search "
      "(*possible*). Staggered, mean of iterations {} to {} by the workers' time; ms. Without "
      "`resilience.slow_factor` the plan is the one for equal workers.\n\n"
      "| pipelines x stages | slow_factor | named | possible | planned | measured | of possible | "
      "|\n|---|---|---|---|---|---|---|---|\n",
      kFirst, kLast);
  bool all_met = true;
  for (const Layout& layout : Layouts()) {
    for (const bool rebalances : {false, true}) all_met = SlowRow(layout, rebalances) && all_met;
  }
  return all_met;
}

int Run() {
  const bool gains_met = StaggeredGain();
  return SlowWorkers() && gains_met ? 0 : 1;
}

}  // namespace
}  // namespace recycle::testing

int main() { return recycle::testing::Run(); }
