// A worker that computes slowly keeps its place and gets less to do. Docs: docs/RECOVERY.md ("Slow
// workers").
#include <gtest/gtest.h>

#include <algorithm>

#include "job.h"
#include "recycle/plan/plan_json.h"

namespace recycle::testing {
namespace {

constexpr int kSlowFrom = 5;

std::ptrdiff_t Forwards(const Plan& plan, WorkerId worker) {
  const std::vector<Action>& actions = FindWorker(plan.workers, worker)->actions;
  return std::count_if(actions.begin(), actions.end(),
                       [](const Action& action) { return action.kind == ActionKind::kForward; });
}

TEST(Straggler, IsNamedWithinTenIterationsAndSpared) {
  JobOptions options{.data = 3, .pipeline = 2, .micro_batches = 4, .iterations = 40};
  Job reference(options);
  ASSERT_EQ(reference.Run(), 0) << reference.Output();
  options.inject = {"slow x8 1:0 at F of iteration " + std::to_string(kSlowFrom)};
  options.arguments = {"--set", "resilience.slow_factor=4"};
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  const auto named = job.Events("straggler");
  ASSERT_FALSE(named.empty()) << job.Output();
  EXPECT_EQ(named[0].at("worker"), "1:0");
  EXPECT_GT(named[0].at("score"), 4.0);
  const auto resumed = job.Events("resumed");
  ASSERT_GE(resumed.size(), 2u);
  EXPECT_LE(resumed[1].at("iteration"), kSlowFrom + 10);
  const int generation = resumed[1].at("generation");
  const StatusOr<Plan> plan =
      ReadPlanFile(job.run_folder() / "plans" / ("g" + std::to_string(generation) + ".json"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(Forwards(*plan, {PipelineId(1), StageId(0)}), options.micro_batches);
  EXPECT_GT(Forwards(*plan, {PipelineId(0), StageId(0)}), options.micro_batches);
  EXPECT_TRUE(job.Events("failure_detected").empty());
  EXPECT_EQ(Differs(job.Losses(), reference.Losses(), 1e-5), "");
}

}  // namespace
}  // namespace recycle::testing
