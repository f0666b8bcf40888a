#include "recycle/planner/adaptive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/baselines.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/exact.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/plan_builder.h"
#include "recycle/planner/stragglers.h"
#include "recycle/planner/virtual_pipelines.h"

namespace recycle {
namespace {

using testing::At;
using testing::FailPerStage;
using testing::kReal;
using testing::MakeRequest;
using testing::PeriodOf;
using testing::RandomRequest;

// The paper's example with memory: no loss with twice 1F1B's, wherever the failure is.
TEST(AdaptiveTest, RunningExampleUnderCapacities) {
  for (int stage = 0; stage < 4; ++stage) {
    PlanRequest request = MakeRequest(3, 4, 6, "F=1", "8");
    request.failed = {At(1, stage)};
    EXPECT_EQ(PeriodOf(request), 27) << stage;
  }
  PlanRequest request = MakeRequest(3, 4, 6, "F=1", "4");
  request.failed = {At(1, 1)};
  EXPECT_EQ(PeriodOf(request), 28);
}

TEST(AdaptiveTest, UnevenFailuresNeedTheHillClimbAndGetIt) {
  for (const auto& [cap, most] : {std::pair("8", 103.0), {"16", 98.6}}) {
    PlanRequest request = MakeRequest(5, 8, 20, "F=1,I=1.2,W=0.7,send=0.04", cap);
    FailPerStage(request, {0, 1, 0, 0, 2, 0, 0, 1});
    EXPECT_LE(PeriodOf(request), most) << cap;
  }
}

// Equal failures per stage and unit times: the proven bound is reached.
TEST(AdaptiveTest, EqualFailuresReachTheBound) {
  for (const auto& [dp, pp, m] : {std::tuple(3, 4, 6), {4, 4, 8}, {8, 8, 32}}) {
    for (const int failures : {0, 1, 2}) {
      for (const int cap : {pp, 2 * pp}) {
        PlanRequest request = MakeRequest(dp, pp, m, "F=1", std::to_string(cap));
        FailPerStage(request, std::vector<int>(static_cast<std::size_t>(pp), failures));
        const Plan plan = MakePlan(request).value();
        EXPECT_EQ(*plan.period, *plan.lower_bound)
            << dp << "x" << pp << " " << failures << " " << cap;
      }
    }
  }
}

TEST(AdaptiveTest, RandomJobsAreLegalNeverWorseThanNaiveAndAtLeastTheBound) {
  constexpr std::uint64_t kSeed = 424242;
  Prng prng(kSeed);
  for (int trial = 0; trial < 1000; ++trial) {
    PlanRequest request = RandomRequest(prng, 6, 6, 12);
    if (prng.Below(3) == 0) {
      const std::vector<WorkerId> live = LiveWorkers(request.parallel, request.failed);
      request.slow = {
          {live[prng.Below(live.size())], 1.0 + static_cast<double>(prng.Below(8)) / 4}};
    }
    request.affinity = static_cast<Affinity>(prng.Below(3));
    if (prng.Below(20) != 0) request.effort = Effort::kOnline;
    const std::string where = "seed " + std::to_string(kSeed) + " trial " + std::to_string(trial);
    const StatusOr<FlatJob> job = MakeFlatJob(request);
    if (!job.ok()) continue;  // a capacity below one micro-batch
    const StatusOr<Plan> plan = MakePlan(request);
    ASSERT_TRUE(plan.ok()) << where << ": " << plan.status();
    ASSERT_TRUE(Validate(*plan).ok()) << where << ": " << Validate(*plan);
    EXPECT_LE(LowerBound(*job), *plan->period) << where;
    EXPECT_TRUE(ComputeFigures(*plan)->certified) << where;
    request.method = Method::kNaive;
    const StatusOr<Plan> naive = MakePlan(request);
    ASSERT_TRUE(naive.ok()) << where << ": " << naive.status();
    EXPECT_LE(*plan->period, *naive->period) << where;
    const StatusOr<Order> in_its_place = MakeNaive(*job);  // with the request's options
    ASSERT_TRUE(in_its_place.ok()) << where << ": " << in_its_place.status();
    const Ticks period = EvaluateOrder(*job, *in_its_place).period;
    EXPECT_LE(*plan->period, period) << where;
    EXPECT_LE(period, *naive->period) << where;
    EXPECT_LE(NaiveLowerBound(*job), period) << where;
  }
}

// A plan for more failures is legal for fewer: the workers that live after all have nothing to do.
TEST(AdaptiveTest, PlansForMoreFailuresAreLegalForFewer) {
  constexpr std::uint64_t kSeed = 31;
  Prng prng(kSeed);
  for (int trial = 0; trial < 100; ++trial) {
    PlanRequest request = RandomRequest(prng, 6, 6, 12);
    request.effort = Effort::kOnline;
    StatusOr<Plan> plan = MakePlan(request);
    if (!plan.ok()) continue;  // a capacity below one micro-batch
    while (!plan->failed.empty()) {
      const std::size_t revived = prng.Below(plan->failed.size());
      plan->workers.push_back({.worker = plan->failed[revived], .actions = {}});
      plan->failed.erase(plan->failed.begin() + static_cast<std::ptrdiff_t>(revived));
    }
    std::sort(plan->workers.begin(), plan->workers.end(),
              [](const WorkerSchedule& a, const WorkerSchedule& b) { return a.worker < b.worker; });
    AddStepActions(*plan);
    EXPECT_TRUE(Validate(*plan).ok())
        << "seed " << kSeed << " trial " << trial << ": " << Validate(*plan);
    EXPECT_EQ(ComputeFigures(*plan)->period, *plan->period) << "trial " << trial;
  }
}

// Whatever runs beside it: no state is shared, no clock is looked at.
TEST(AdaptiveTest, ThreadsDoNotChangeAByte) {
  Prng prng(6);
  std::vector<PlanRequest> requests;
  while (requests.size() < 6) {
    PlanRequest request = RandomRequest(prng, 4, 4, 6);
    if (MakeFlatJob(request).ok()) requests.push_back(std::move(request));
  }
  std::vector<Plan> alone(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) alone[i] = MakePlan(requests[i]).value();
  std::vector<Plan> together(requests.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t n = 0; n < requests.size(); ++n) {
      threads.emplace_back([&, n] { together[n] = MakePlan(requests[n]).value(); });
    }
  }
  EXPECT_EQ(alone, together);
}

// Micro-batches are named after the pipelines that run them: with one worker dead nobody whose home
// lives moves, although chains of virtual pipelines know no homes.
TEST(AdaptiveTest, VirtualPipelinesKeepMicroBatchesAtHome) {
  PlanRequest request = MakeRequest(8, 4, 14, kReal, "8");
  request.failed = {At(3, 1)};
  const FlatJob job = MakeFlatJob(request).value();
  const TimedOrder made = MakeAdaptive(job, Affinity::kPool, Effort::kOnline).value();
  EXPECT_TRUE(CheckOrder(job, made.order).ok()) << CheckOrder(job, made.order);
  EXPECT_EQ(made.moved, 0);
}

TEST(AdaptiveTest, EqualRequestsGiveEqualBytes) {
  Prng prng(5);
  for (int trial = 0; trial < 10; ++trial) {
    const PlanRequest request = RandomRequest(prng, 4, 4, 6);
    const StatusOr<Plan> one = MakePlan(request);
    const StatusOr<Plan> two = MakePlan(request);
    ASSERT_EQ(one.status(), two.status());
    if (one.ok()) {
      EXPECT_EQ(*one, *two);
    }
  }
}

// EvaluateOrder is the planner's own stopwatch; the plan module's is the judge.
TEST(AdaptiveTest, OrdersAndPlansAreTimedAlike) {
  constexpr std::uint64_t kSeed = 99;
  Prng prng(kSeed);
  for (int trial = 0; trial < 100; ++trial) {
    const PlanRequest request = RandomRequest(prng, 5, 5, 8);
    const StatusOr<FlatJob> job = MakeFlatJob(request);
    if (!job.ok()) continue;
    const TimedOrder made = MakeAdaptive(*job, Affinity::kPool, Effort::kOnline).value();
    const Plan plan = BuildPlan(request, *job, made.order, made.figures);
    const PlanFigures judged = ComputeFigures(plan).value();
    EXPECT_EQ(*plan.period, judged.period) << "trial " << trial;
    EXPECT_EQ(*plan.makespan, judged.makespan) << "trial " << trial;
    EXPECT_TRUE(CheckOrder(*job, made.order).ok()) << CheckOrder(*job, made.order);
  }
}

// A plan for more failures is legal for fewer: its orders expand for any smaller failure set.
TEST(AdaptiveTest, TemplatesForMoreFailuresServeFewer) {
  PlanRequest request = MakeRequest(4, 3, 5, kReal, "3");
  FailPerStage(request, {0, 1, 0});
  const FlatJob job = MakeFlatJob(request).value();
  for (int length = TemplateLength(job); length <= 20; ++length) {
    const PipelineTemplate longer = MakeTemplate(job, length, TemplateEffort::kHead).value();
    const Order order = ExpandTemplate(job, longer.order);
    EXPECT_TRUE(CheckOrder(job, order).ok()) << CheckOrder(job, order);
    EXPECT_LE(EvaluateOrder(job, order).period, longer.figures.period) << length;
  }
}

TEST(AdaptiveTest, SlowWorkersKeepTheirPlaceWithLessWork) {
  PlanRequest request = MakeRequest(8, 8, 32, kReal, "16");
  request.effort = Effort::kOnline;
  request.slow = {{At(3, 2), 2.0}};
  const StragglerAdvice advice = JudgeStragglers(request).value();
  ASSERT_EQ(advice.verdicts.size(), 1U);
  const StragglerVerdict& verdict = advice.verdicts.front();
  EXPECT_FALSE(verdict.evict) << verdict.reason;
  EXPECT_LT(ToUnits(verdict.period_kept), 102) << verdict.reason;
  EXPECT_EQ(*advice.plan.period, verdict.period_kept);

  request.slow = {{At(3, 2), 50.0}};  // slower than a whole iteration of the others
  EXPECT_TRUE(JudgeStragglers(request)->verdicts.front().evict);
}

}  // namespace
}  // namespace recycle
