#include "recycle/executor/learning_rate.h"

#include <gtest/gtest.h>

namespace recycle {
namespace {

OptimizerOptions Options() {
  OptimizerOptions options;
  options.lr = 1.0;
  options.min_lr = 0.1;
  options.warmup = 4;
  return options;
}

TEST(LearningRate, WarmsUpInEqualStepsThenFallsAlongAHalfCosine) {
  const OptimizerOptions options = Options();
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 0), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 3), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 4), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 8), 0.55) << "half-way";
  for (int t = 5; t < 12; ++t) {
    EXPECT_LT(LearningRate(options, 12, t), LearningRate(options, 12, t - 1));
    EXPECT_GT(LearningRate(options, 12, t), options.min_lr);
  }
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 12), options.min_lr);
}

TEST(LearningRate, ConstantAndDegenerateSchedules) {
  OptimizerOptions options = Options();
  options.cosine = false;
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 11), 1.0);
  options.warmup = 0;
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 0), 1.0);
  options = Options();
  options.warmup = 20;
  EXPECT_DOUBLE_EQ(LearningRate(options, 12, 11), 0.6) << "a warm-up longer than the job";
  EXPECT_DOUBLE_EQ(LearningRate(options, 20, 20), 1.0) << "nothing left for the cosine";
}

}  // namespace
}  // namespace recycle
