#include "recycle/app/summary.h"

#include <gtest/gtest.h>

namespace recycle {
namespace {

using std::chrono::milliseconds;

TEST(RunSummary, SpeedBeforeAndAfterLeavesTheDisturbedIterationOut) {
  RunSummary summary;
  const Generation first(1);
  const Generation second(2);
  summary.AddIteration(
      {.loss = 8, .tokens = 100, .elapsed = milliseconds(100), .generation = first});
  summary.AddIteration(
      {.loss = 7, .tokens = 100, .elapsed = milliseconds(100), .generation = first});
  summary.AddFailures(1);
  EXPECT_TRUE(summary.ToJson(2, "", {}).at("tokens_per_s").at("now").is_null());
  summary.AddRegroup(/*replayed_actions=*/5, milliseconds(90));
  summary.AddIteration({.loss = 6,
                        .tokens = 100,
                        .elapsed = milliseconds(300),
                        .generation = second,
                        .disturbed = true});
  summary.AddIteration(
      {.loss = 5, .tokens = 100, .elapsed = milliseconds(125), .generation = second});
  const Json json = summary.ToJson(4, "abc", std::chrono::seconds(2));
  EXPECT_DOUBLE_EQ(json.at("first_loss"), 8);
  EXPECT_DOUBLE_EQ(json.at("final_loss"), 5);
  EXPECT_DOUBLE_EQ(json.at("tokens_per_s").at("fault_free"), 1000);
  EXPECT_DOUBLE_EQ(json.at("tokens_per_s").at("now"), 800);
  EXPECT_DOUBLE_EQ(json.at("goodput"), 1 - 90.0 / 625.0);
  EXPECT_EQ(json.at("failures"), 1);
  EXPECT_EQ(json.at("lost_iterations"), 0);
  EXPECT_EQ(json.at("replayed_actions"), 5);
  EXPECT_DOUBLE_EQ(json.at("wall_s"), 2);
}

TEST(RunSummary, ARunWithoutAnIterationHasNoFigures) {
  const Json json = RunSummary().ToJson(0, "", std::chrono::seconds(1));
  EXPECT_TRUE(json.at("final_loss").is_null());
  EXPECT_TRUE(json.at("goodput").is_null());
  EXPECT_TRUE(json.at("tokens_per_s").at("now").is_null());
}

}  // namespace
}  // namespace recycle
