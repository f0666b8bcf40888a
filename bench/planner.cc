// Figures of the planner on the jobs of its design, each beside what is asked of it: gaps to the
// proven bounds, throughput, the plan table, online replanning, the exact solver. Every plan is
// validated and its period certified.
//
//   planner               all sections
//   planner few online    some of them
//
// docs/planner.md holds what it printed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "planner_sections.h"
#include "recycle/base/check.h"
#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/normalization.h"

namespace recycle {
namespace {

constexpr std::array<std::pair<std::string_view, void (*)(Verdicts&)>, 10> kSections = {
    {{"table", Table},
     {"online", Online},
     {"throughput", Throughput},
     {"example", RunningExample},
     {"equal", EqualFailures},
     {"few", FewFailures},
     {"sends", Sends},
     {"freed", FreedAtInput},
     {"stragglers", Stragglers},
     {"exact", ExactSolver}}};

}  // namespace

Solved Solve(const PlanRequest& request, int failures) {
  const std::clock_t start = std::clock();
  const StatusOr<Plan> plan =
      failures < 0 ? MakePlan(request) : PlanForFailureCount(request, failures);
  const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RC_CHECK(plan.ok()) << plan.status();
  RC_CHECK(Validate(*plan).ok()) << Validate(*plan);
  RC_CHECK(plan->parallel.virtual_stages > 1 || ComputeFigures(*plan)->certified);
  const double period = ToUnits(*plan->period);
  return {
      .period = period, .gap_percent = 100 * (period / ToUnits(*plan->lower_bound) - 1), .ms = ms};
}

std::string JobName(int dp, int pp, int m) { return fmt::format("{}x{} M{}", dp, pp, m); }

}  // namespace recycle

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  recycle::Verdicts verdicts;
  for (const auto& [name, section] : recycle::kSections) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    fmt::print("{}\n", name);
    section(verdicts);
  }
  verdicts.PrintTotal();
  return verdicts.misses() == 0 ? 0 : 1;
}
