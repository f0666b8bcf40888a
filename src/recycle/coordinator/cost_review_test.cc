#include "recycle/coordinator/cost_review.h"

#include <gtest/gtest.h>

#include "recycle/coordinator/testing_plan.h"

namespace recycle {
namespace {

CostProfile TwoStages() {
  CostProfile costs;
  costs.stages.resize(2);
  costs.stages[0].forward = 100;
  costs.stages[1].forward = 300;
  costs.stages[0].optimizer = 7;
  for (StageCosts& stage : costs.stages) stage.backward_input = stage.backward_weight = 50;
  return costs;
}

TEST(CostReviewTest, MeasuredCostsTakeThePlansScale) {
  const CostProfile costs = WithMeasured(TwoStages(), {{20, 30, 10}, {20, 0, 40}});
  CostProfile expected = TwoStages();
  expected.stages[0].forward = 200;
  expected.stages[0].backward_input = 300;
  expected.stages[0].backward_weight = 100;
  expected.stages[1].forward = 200;
  expected.stages[1].backward_input = 0;
  expected.stages[1].backward_weight = 400;
  EXPECT_EQ(costs, expected);
  EXPECT_EQ(WithMeasured(TwoStages(), {{0, 30, 10}, {0, 5, 40}}), TwoStages());
}

// A coordinator that comes later: what an earlier one has judged is not judged again.
TEST(CostReviewTest, ItIsTakenOverAsJudgedOrHeardAgain) {
  Roster roster({.data = 1, .pipeline = 1});
  const WorkerId worker;
  roster.At(worker).presence = Place::Presence::kLive;
  CostReview judged(&roster);
  judged.TakeOver({{10, 10, 20}});
  judged.Receive(worker, {10, 10, 90});
  EXPECT_FALSE(judged.due());
  EXPECT_EQ(judged.measured(), (std::vector<MeasuredCosts>{{10, 10, 20}}));
  CostReview anew(&roster);
  anew.TakeOver({});
  EXPECT_FALSE(anew.due());
  anew.Receive(worker, {10, 10, 20});
  EXPECT_TRUE(anew.due());
}

// The costs are kept for later plans, although the running one stays.
TEST(CostReviewTest, APlanThatIsAsGoodStays) {
  const Parallelism parallel{.data = 1, .pipeline = 1};
  Roster roster(parallel);
  const WorkerId worker;
  roster.At(worker).presence = Place::Presence::kLive;
  CostReview review(&roster);
  review.Receive(worker, {10, 10, 20});
  const MakePlanFunction make_plan = PlanMaker(parallel, /*micro_batches=*/2);
  const Plan running = make_plan({}).value();
  const CostReview::Outcome outcome = review.Judge(running, {}, make_plan, 1000);
  EXPECT_EQ(outcome.plan, nullptr);
  EXPECT_FALSE(outcome.news.replanned);
  EXPECT_DOUBLE_EQ(outcome.news.deviation, 1);
  EXPECT_EQ(outcome.news.period_before, outcome.news.period_after);
  EXPECT_EQ(review.measured(), (std::vector<MeasuredCosts>{{10, 10, 20}}));
  EXPECT_FALSE(review.due());
}

}  // namespace
}  // namespace recycle
