// The fault-free generators against the closed forms of their papers (unit times, no sends).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "recycle/plan/validate.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/planner.h"
#include "recycle/planner/torch_csv.h"

namespace recycle {
namespace {

using testing::At;
using ::testing::HasSubstr;
using testing::MakeRequest;

double PeriodOf(PlanRequest request, Method method) {
  request.method = method;
  return testing::PeriodOf(request);
}

PlanRequest VirtualRequest(int dp, int pp, int m, int stages_per_worker, Placement placement,
                           const std::string& cap) {
  PlanRequest request;
  request.parallel = {.data = dp,
                      .pipeline = pp,
                      .tensor = 1,
                      .virtual_stages = stages_per_worker,
                      .placement = placement};
  request.micro_batches = m;
  request.costs = MakeUniformProfile({.forward = 1.0 * stages_per_worker,
                                      .backward_input = 1.0 * stages_per_worker,
                                      .backward_weight = 1.0 * stages_per_worker},
                                     request.parallel)
                      .value();
  EXPECT_TRUE(ApplyMemoryCap(cap, request.parallel, request.costs).ok());
  return request;
}

TEST(GeneratorsTest, ZeroBubbleMeetsItsClosedForms) {
  for (const auto& [pp, m] : {std::pair(1, 3), {2, 4}, {4, 8}, {4, 12}, {8, 32}, {6, 11}}) {
    EXPECT_EQ(PeriodOf(MakeRequest(2, pp, m, "F=1", std::to_string(pp)), Method::kZbH1),
              3 * m + pp - 1)
        << pp << " " << m;
    EXPECT_EQ(PeriodOf(MakeRequest(2, pp, m, "F=1", std::to_string(2 * pp - 1)), Method::kZbH2),
              3 * m)
        << pp << " " << m;
  }
}

TEST(GeneratorsTest, ZeroBubbleSaysWhenItDoesNotFit) {
  PlanRequest request = MakeRequest(1, 4, 8, "F=1", "4");
  request.method = Method::kZbH2;
  EXPECT_EQ(MakePlan(request).status().code(), StatusCode::kFailedPrecondition);
}

TEST(GeneratorsTest, InterleavedMeetsItsClosedForm) {
  for (const auto& [pp, m, v] : {std::tuple(2, 4, 2), {4, 8, 2}, {4, 12, 3}, {3, 6, 4}}) {
    const PlanRequest request = VirtualRequest(2, pp, m, v, Placement::kInterleaved, "none");
    // Times are per worker share of v units: 3M + 3(PP - 1)/v in units of the whole share.
    EXPECT_EQ(PeriodOf(request, Method::kInterleaved), v * 3 * m + 3 * (pp - 1)) << pp << " " << m;
  }
  PlanRequest odd = VirtualRequest(1, 4, 6, 2, Placement::kInterleaved, "none");
  odd.method = Method::kInterleaved;
  EXPECT_THAT(std::string(MakePlan(odd).status().message()), HasSubstr("multiple of pp = 4"));
}

// The V placement has no bubbles within 1F1B's memory, where ZB-H1 has PP - 1.
TEST(GeneratorsTest, ZbVMeetsItsClosedForm) {
  for (const auto& [pp, m] :
       {std::pair(1, 2), {2, 3}, {4, 7}, {4, 8}, {5, 30}, {8, 32}, {16, 32}}) {
    const PlanRequest request = VirtualRequest(2, pp, m, 2, Placement::kV, std::to_string(pp));
    EXPECT_EQ(PeriodOf(request, Method::kZbV), 2 * 3 * m) << pp << " " << m;
  }
}

// Too few micro-batches for its warm-up, and times for which it was not made.
TEST(GeneratorsTest, ZbVTakesAnyJob) {
  for (const auto& [pp, m] : {std::pair(4, 1), {4, 2}, {3, 4}, {6, 10}}) {
    PlanRequest request = VirtualRequest(1, pp, m, 2, Placement::kV, std::to_string(pp));
    for (StageCosts& stage : request.costs.stages) stage.backward_input += kTicksPerUnit / 20;
    EXPECT_GE(PeriodOf(request, Method::kZbV), 2 * 3.05 * m) << pp << " " << m;
  }
}

TEST(GeneratorsTest, VirtualStagesSurviveFailures) {
  for (const Placement placement : {Placement::kInterleaved, Placement::kV}) {
    PlanRequest request = VirtualRequest(3, 3, 4, 2, placement, "4");
    request.failed = {At(1, 0), At(2, 0), At(0, 2)};
    const double period = PeriodOf(request, Method::kAdaptive);
    EXPECT_GE(period, 2 * 3 * 12);  // one worker is left in column 0
  }
}

// One worker, two stages, a long step: stage 1 computes while stage 0 steps.
TEST(GeneratorsTest, AWorkerComputesOneStageWhileAnotherSteps) {
  PlanRequest request = VirtualRequest(1, 1, 1, 2, Placement::kInterleaved, "none");
  for (StageCosts& stage : request.costs.stages) stage.optimizer = 10 * kTicksPerUnit;
  EXPECT_EQ(PeriodOf(request, Method::kAdaptive), 15);
}

TEST(GeneratorsTest, ExportsTheScheduleTextOfPyTorch) {
  PlanRequest request = MakeRequest(2, 2, 2);
  request.method = Method::kOneFOneB;
  EXPECT_EQ(*PlanToTorchCsv(*MakePlan(request)), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  request.method = Method::kAdaptive;
  request.failed = {At(1, 1)};
  EXPECT_EQ(PlanToTorchCsv(*MakePlan(request)).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recycle
