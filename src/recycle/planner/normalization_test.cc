#include "recycle/planner/normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "recycle/plan/validate.h"
#include "recycle/planner/job_testing.h"

namespace recycle {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::kReal;
using testing::MakeRequest;

TEST(NormalizationTest, PlacementsSpreadFailuresAsEvenlyAsPossible) {
  const FlatJob job = MakeFlatJob(MakeRequest(4, 6, 8)).value();
  for (int failures = 0; failures <= 18; ++failures) {
    for (const std::vector<int>& placement : CandidatePlacements(job, failures)) {
      int total = 0;
      for (const int f : placement) {
        EXPECT_LE(f, (failures + 5) / 6);
        total += f;
      }
      EXPECT_EQ(total, failures);
    }
  }
  EXPECT_THAT(LastPlacement({.data = 4, .pipeline = 6}, 8), ElementsAre(1, 1, 1, 1, 2, 2));
}

TEST(NormalizationTest, ACountIsPlannedWhereItHurtsLeast) {
  PlanRequest request = MakeRequest(4, 4, 8, kReal, "4");
  const Plan chosen = PlanForFailureCount(request, 2).value();
  ASSERT_TRUE(Validate(chosen).ok()) << Validate(chosen);
  EXPECT_EQ(chosen.failed.size(), 2U);
  for (int one = 0; one < 4; ++one) {
    for (int two = one; two < 4; ++two) {
      request.failed = {At(3, one), At(one == two ? 2 : 3, two)};
      request.effort = Effort::kOnline;
      EXPECT_LE(*chosen.period, *MakePlan(request)->period) << one << " " << two;
    }
  }
  request.failed.clear();
  EXPECT_EQ(PlanForFailureCount(request, 13).status().code(), StatusCode::kInvalidArgument);
}

TEST(NormalizationTest, MovesAreFewestAndSayWhatTheyBring) {
  PlanRequest request = MakeRequest(4, 4, 8, kReal);
  for (StageCosts& stage : request.costs.stages) stage.state_bytes = 100;
  request.failed = {At(0, 1), At(1, 1), At(2, 1)};  // three at one stage: two too many
  const NormalizedPlan plan = NormalizeFailures(request, 0).value();
  ASSERT_TRUE(Validate(plan.plan).ok()) << Validate(plan.plan);
  ASSERT_EQ(plan.moves.size(), 2U);
  EXPECT_EQ(plan.plan.copies.size(), 2U);
  EXPECT_EQ(plan.plan.failed.size(), 3U);
  const std::vector<int> live = LivePerStage(plan.plan.parallel, plan.plan.failed);
  EXPECT_GE(*std::min_element(live.begin(), live.end()), 3);
  for (const NormalizationMove& move : plan.moves) {
    EXPECT_EQ(move.copy.to.stage, StageId(1));
    EXPECT_NE(move.copy.from.stage, StageId(1));
    EXPECT_EQ(move.bytes, 100);
    EXPECT_LT(move.period_with, move.period_without);
  }

  const NormalizedPlan lenient = NormalizeFailures(request, 1).value();
  EXPECT_EQ(lenient.moves.size(), 1U);
  EXPECT_TRUE(NormalizeFailures(request, 2)->moves.empty());
}

TEST(NormalizationTest, AStageWithoutWorkersHasNobodyToCopyFrom) {
  PlanRequest request = MakeRequest(2, 3, 4);
  request.failed = {At(0, 1), At(1, 1)};
  EXPECT_EQ(NormalizeFailures(request, 0).status(),
            absl::FailedPreconditionError("no plan: stage 1 has no live worker"));
}

}  // namespace
}  // namespace recycle
