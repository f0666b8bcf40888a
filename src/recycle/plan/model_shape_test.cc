#include "recycle/plan/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

ModelShape Gpt2Small() {
  ModelShape shape;
  shape.num_blocks = 12;
  shape.hidden = 768;
  shape.heads = 12;
  shape.sequence = 1024;
  shape.vocabulary = 50257;
  shape.tied = true;
  return shape;
}

double Cost(const std::vector<LayerCosts>& layers, const LayerRange& range) {
  double cost = 0;
  for (int layer = range.begin; layer < range.end; ++layer) {
    const LayerCosts& costs = layers[static_cast<std::size_t>(layer)];
    cost += costs.forward_flops + costs.backward_input_flops + costs.backward_weight_flops;
  }
  return cost;
}

// The least bottleneck over every choice of `num_stages` - 1 cuts.
double BruteForce(const std::vector<LayerCosts>& layers, int begin, int num_stages) {
  const int end = static_cast<int>(layers.size());
  if (num_stages == 1) return Cost(layers, {begin, end});
  double best = 1e300;
  for (int cut = begin + 1; cut <= end - num_stages + 1; ++cut) {
    best = std::min(best,
                    std::max(Cost(layers, {begin, cut}), BruteForce(layers, cut, num_stages - 1)));
  }
  return best;
}

TEST(ModelShape, CountsTheParametersOfGpt2) {
  std::int64_t parameters = 0;
  for (const LayerCosts& layer : ComputeLayerCosts(Gpt2Small())) parameters += layer.parameters;
  EXPECT_EQ(parameters, 124'439'808);  // GPT-2 small, as published: 124M
}

TEST(ModelShape, FlopsAreAboutSixPerParameterAndToken) {
  ModelShape shape = Gpt2Small();
  const LayerCosts block = ComputeLayerCosts(shape)[1];
  const double flops =
      block.forward_flops + block.backward_input_flops + block.backward_weight_flops;
  const double matrices = 6.0 * 12 * 768 * 768 * 1024;
  const double attention =
      12.0 * 768 * 1024 * 1024;  // 12 T H a token: Chowdhery et al., PaLM, app. B
  EXPECT_DOUBLE_EQ(flops, matrices + attention);
  EXPECT_LE(block.deferred_bytes, block.activation_bytes);
}

TEST(ModelShape, SplitsAsEvenlyAsBruteForceAndOwnsEveryLayerOnce) {
  Prng prng(31);
  for (int i = 0; i < 200; ++i) {
    ModelShape shape;
    shape.num_blocks = 1 + static_cast<int>(prng.Below(8));
    shape.hidden = 16 << prng.Below(4);
    shape.heads = 4;
    shape.sequence = 64;
    shape.vocabulary = 256 << prng.Below(6);
    const int stages =
        1 + static_cast<int>(prng.Below(static_cast<std::uint64_t>(shape.num_blocks)));
    const std::vector<LayerRange> ranges = SplitLayers(shape, stages).value();
    ASSERT_EQ(ranges.size(), static_cast<std::size_t>(stages));
    const std::vector<LayerCosts> layers = ComputeLayerCosts(shape);
    int next = 0;
    double bottleneck = 0;
    for (const LayerRange& range : ranges) {
      ASSERT_EQ(range.begin, next) << "case " << i << " of seed 31";
      ASSERT_LT(range.begin, range.end);
      next = range.end;
      bottleneck = std::max(bottleneck, Cost(layers, range));
    }
    ASSERT_EQ(next, shape.num_layers());
    ASSERT_DOUBLE_EQ(bottleneck, BruteForce(layers, 0, stages)) << "case " << i << " of seed 31";
  }
}

TEST(ModelShape, SevenBlocksOnThreeStagesAreSpreadEvenly) {
  ModelShape shape = Gpt2Small();
  shape.num_blocks = 7;
  shape.vocabulary = 256;
  EXPECT_EQ(SplitLayers(shape, 3).value(), (std::vector<LayerRange>{{0, 3}, {3, 6}, {6, 9}}));
}

TEST(ModelShape, RefusesMoreStagesThanBlocks) {
  ModelShape shape = Gpt2Small();
  const Status status = SplitLayers(shape, 13).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("13 stages for a model of 12 blocks"));
}

TEST(ModelShape, ATiedHeadHoldsTheEmbeddingOnBothEnds) {
  const ModelShape shape = Gpt2Small();
  const double table = 4.0 * 50257 * 768;
  const CostProfile one = CostsFromShape(shape, SplitLayers(shape, 1).value(), 1e12);
  const CostProfile two = CostsFromShape(shape, SplitLayers(shape, 2).value(), 1e12);
  EXPECT_EQ(two.stages[0].parameter_bytes + two.stages[1].parameter_bytes,
            one.stages[0].parameter_bytes + table);
  EXPECT_EQ(one.stages[0].parameter_bytes, 4.0 * 124'439'808);
  EXPECT_EQ(one.stages[0].state_bytes, 3 * one.stages[0].parameter_bytes);
  EXPECT_EQ(two.stages[0].boundary_bytes, 4.0 * 1024 * 768);
  const double block_ms = 1e3 * ComputeLayerCosts(shape)[1].forward_flops / 1e12;
  EXPECT_GT(ToUnits(two.stages[0].forward), block_ms);
}

}  // namespace
}  // namespace recycle
