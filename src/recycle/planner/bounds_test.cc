#include "recycle/planner/bounds.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "recycle/plan/timeline.h"
#include "recycle/planner/job_testing.h"

namespace recycle {
namespace {

using testing::At;
using testing::MakeRequest;

double Bound(const PlanRequest& request) {
  return ToUnits(LowerBound(MakeFlatJob(request).value()));
}

// Unit times: n = ceil(N / live) micro-batches on the busiest worker, and |PP - 1 - 2i| idle at cap
// PP.
TEST(BoundsTest, MatchesTheClosedFormsOfUnitTimes) {
  for (int stage = 0; stage < 5; ++stage) {
    PlanRequest request = MakeRequest(6, 5, 10, "F=1", "5");
    request.failed = {At(0, stage)};
    const FlatJob job = MakeFlatJob(request).value();
    EXPECT_EQ(ToUnits(StageLowerBound(job, stage, 5)), 3 * 12 + std::abs(4 - 2 * stage)) << stage;
    request = MakeRequest(6, 5, 10, "F=1", "10");
    request.failed = {At(0, stage)};
    EXPECT_EQ(Bound(request), 3 * 12) << stage;
  }
  // 1F1B's own memory: idle max(PP - 1, 2i).
  EXPECT_EQ(Bound(MakeRequest(1, 4, 8, "F=1", "1f1b")), 3 * 8 + 6);
}

// Stage 0 has room for PP micro-batches: its last F waits for n - PP W's, and the last
// micro-batch's way down and back follows. With sends this is more than any stage's work and its
// tail.
TEST(BoundsTest, TheLastForwardWaitsForMemory) {
  for (const auto& [send, bound] : {std::pair("0.05", 113.8), {"0.1", 116.8}, {"0.2", 122.8}}) {
    const PlanRequest request =
        MakeRequest(1, 16, 32, std::string("F=1,I=1.05,W=0.85,send=") + send, "16");
    EXPECT_EQ(Bound(request), bound) << send;
    EXPECT_EQ(ToUnits(*MakePlan(request)->period), bound) << send;
  }
}

TEST(BoundsTest, SynchronousStepsCostTheWayToTheStage) {
  PlanRequest request = MakeRequest(3, 4, 6);
  request.options.staggered = false;
  for (int stage = 0; stage < 4; ++stage) {
    request.failed = {At(1, stage)};
    EXPECT_EQ(Bound(request), 3 * 9 + stage) << stage;
  }
}

TEST(BoundsTest, StragglersShareWorkBySpeed) {
  PlanRequest request = MakeRequest(2, 1, 6);
  request.slow = {{At(0, 0), 2.0}};
  // 12 micro-batches of 3 units on speeds 1 and 1/2: 8 and 4, both done after 24.
  EXPECT_EQ(Bound(request), 24);
}

TEST(BoundsTest, AWorkerMayComputeOneStageWhileAnotherSteps) {
  PlanRequest request;
  request.parallel = {.data = 1,
                      .pipeline = 1,
                      .tensor = 1,
                      .virtual_stages = 2,
                      .placement = Placement::kInterleaved};
  request.micro_batches = 1;
  request.costs =
      MakeUniformProfile({.forward = 2, .backward_input = 2, .backward_weight = 2, .optimizer = 20},
                         request.parallel)
          .value();
  StatusOr<Plan> plan = MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Bound(request), 15);
  // An order that attains it: stage 0 steps while stage 1 still computes.
  plan->workers[0].actions = ParseActions("0F0.0 1F0.0 1I0.0 0I0.0 0W0.0 1W0.0").value();
  AddStepActions(*plan);
  EXPECT_EQ(ToUnits(ComputeTimeline(*plan).value().period), 15);
}

}  // namespace
}  // namespace recycle
