#include "recycle/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/job_testing.h"

namespace recycle {
namespace {

using testing::At;
using testing::FailPerStage;
using ::testing::HasSubstr;
using testing::kReal;
using testing::kUnit;
using testing::MakeRequest;
using testing::PeriodOf;
using testing::RandomRequest;

// The paper's figures 2 to 6: 3 pipelines, 4 stages, 6 micro-batches, worker 1:2 dead.
TEST(PlannerTest, ReproducesThePapersRunningExample) {
  PlanRequest request = MakeRequest(3, 4, 6);
  EXPECT_EQ(ToUnits(FaultFreeOneFOneBPeriod(request).value()), 27);
  request.failed = {At(1, 2)};
  request.method = Method::kNaive;
  EXPECT_EQ(PeriodOf(request), 36);
  request.method = Method::kAdaptive;
  request.options.staggered = false;
  EXPECT_EQ(PeriodOf(request), 29);
  request.options.staggered = true;
  EXPECT_EQ(PeriodOf(request), 27);
}

TEST(PlannerTest, NaiveReroutingCostsWhatThePaperSaysAtEveryStage) {
  const std::vector<double> expected = {29, 36, 36, 36};
  for (int stage = 0; stage < 4; ++stage) {
    PlanRequest request = MakeRequest(3, 4, 6);
    request.failed = {At(1, stage)};
    request.method = Method::kNaive;
    EXPECT_EQ(PeriodOf(request), expected[static_cast<std::size_t>(stage)]) << "stage " << stage;
  }
}

TEST(PlannerTest, GPipeAndOneFOneBMeetTheirClosedForms) {
  for (const Method method : {Method::kGPipe, Method::kOneFOneB}) {
    for (const auto& [pp, m] : {std::pair(1, 1), {4, 6}, {4, 2}, {6, 3}, {3, 12}}) {
      PlanRequest request = MakeRequest(2, pp, m);
      request.method = method;
      EXPECT_EQ(PeriodOf(request), 3 * (m + pp - 1)) << MethodText(method) << " " << pp << " " << m;
    }
  }
  EXPECT_NEAR(ToUnits(FaultFreeOneFOneBPeriod(MakeRequest(1, 16, 32, kReal)).value()), 140.7, 0.05);
  EXPECT_NEAR(ToUnits(FaultFreeOneFOneBPeriod(MakeRequest(1, 16, 64, kReal)).value()), 236.5, 0.05);
}

TEST(PlannerTest, BadRequestsAreErrorsThatSayWhatToDo) {
  PlanRequest request = MakeRequest(3, 4, 6);
  FailPerStage(request, {0, 0, 3, 0});
  EXPECT_EQ(MakePlan(request).status(),
            absl::FailedPreconditionError("no plan: stage 2 has no live worker"));

  request = MakeRequest(3, 4, 6);
  request.failed = {At(1, 2)};
  request.method = Method::kGPipe;
  EXPECT_EQ(MakePlan(request).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MakePlan(request).status().message()), HasSubstr("choice is adaptive"));

  request = MakeRequest(3, 4, 6);
  request.failed = {At(3, 0)};
  EXPECT_THAT(std::string(MakePlan(request).status().message()), HasSubstr("failed worker 3:0"));
  request.failed = {At(1, 0), At(1, 0)};
  EXPECT_THAT(std::string(MakePlan(request).status().message()), HasSubstr("named twice"));
}

}  // namespace
}  // namespace recycle
