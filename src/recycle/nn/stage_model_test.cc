#include "recycle/nn/stage_model.h"

#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/nn/reference_model.h"

namespace recycle {
namespace {

using ::testing::ElementsAre;
using Gradients = std::map<std::string, at::Tensor>;

constexpr std::uint64_t kSeed = 20240917;

ModelOptions SmallModel() {
  return {.num_blocks = 3,
          .hidden = 48,
          .heads = 3,
          .sequence = 20,
          .vocabulary = 97,
          .dropout = 0.0,
          .tied = false,
          .seed = kSeed};
}

struct Batch {
  at::Tensor tokens_BT;
  at::Tensor targets_BT;
};

Batch MakeBatch(const ModelOptions& options, int micro_batch, int samples = 2) {
  Prng prng(HashKeys({kSeed, static_cast<std::uint64_t>(micro_batch)}));
  const auto draw = [&] {
    at::Tensor ids = at::empty({samples, options.sequence}, at::kLong);
    auto* data = ids.data_ptr<std::int64_t>();
    const auto bound = static_cast<std::uint64_t>(options.vocabulary);
    std::generate(data, data + ids.numel(),
                  [&] { return static_cast<std::int64_t>(prng.Below(bound)); });
    return ids;
  };
  return {draw(), draw()};
}

// The stages of one pipeline, chained by hand.
class Pipeline {
 public:
  // `cuts` are the first layers of the stages after the first.
  Pipeline(const ModelOptions& options, std::vector<int> cuts) : options_(options) {
    int begin = 0;
    cuts.push_back(options.num_layers());
    for (const int end : cuts) {
      stages_.push_back(std::make_unique<StageModel>(options, begin, end));
      begin = end;
    }
  }

  at::Tensor Forward(int micro_batch, int iteration = 0, bool evaluate = false) {
    const Batch batch = MakeBatch(options_, micro_batch);
    at::Tensor x = batch.tokens_BT;
    for (auto& stage : stages_) {
      const bool last = stage == stages_.back();
      x = stage->Forward({.iteration = iteration,
                          .micro_batch = micro_batch,
                          .input = x,
                          .targets = last ? batch.targets_BT : at::Tensor(),
                          .evaluate = evaluate,
                          .hook = {}});
    }
    return x;
  }
  at::Tensor BackwardInput(int micro_batch) {
    at::Tensor grad;
    for (auto it = stages_.rbegin(); it != stages_.rend(); ++it) {
      grad = (*it)->BackwardInput(micro_batch, grad, {});
    }
    return grad;
  }
  void BackwardWeight(int micro_batch) {
    for (auto& stage : stages_) stage->BackwardWeight(micro_batch, {});
  }
  at::Tensor Run(int micro_batch) {
    at::Tensor loss = Forward(micro_batch);
    BackwardInput(micro_batch);
    BackwardWeight(micro_batch);
    return loss;
  }

  Gradients Values() { return Collect(&Parameter::value, /*sum=*/false); }
  // A tied weight's gradients summed over its stages, as the executor does.
  Gradients Sums() { return Collect(&Parameter::gradient, /*sum=*/true); }
  std::vector<std::unique_ptr<StageModel>>& stages() { return stages_; }

 private:
  Gradients Collect(at::Tensor Parameter::*member, bool sum) {
    Gradients result;
    for (auto it = stages_.rbegin(); it != stages_.rend(); ++it) {  // the head's share first
      for (const Parameter& parameter : (*it)->parameters()) {
        const at::Tensor copy = (parameter.*member).clone();
        const auto [entry, is_new] = result.try_emplace(parameter.name, copy);
        if (!is_new && sum) entry->second.add_(copy);
      }
    }
    return result;
  }

  ModelOptions options_;
  std::vector<std::unique_ptr<StageModel>> stages_;
};

void ExpectBitwiseEqual(const Gradients& actual, const Gradients& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(at::equal(actual.at(name), tensor))
        << name << ": largest difference " << actual.at(name).sub(tensor).abs().max().item<float>();
  }
}

struct OracleCase {
  const char* name;
  int hidden, heads, sequence, vocabulary;
  double dropout;
  bool tied;
};

class OracleTest : public ::testing::TestWithParam<OracleCase> {};

// The heart of the module: split backward is ordinary backward, bit for bit, for every parameter.
TEST_P(OracleTest, GradientsOfOneMicroBatchAreAutogradsBitForBit) {
  ModelOptions options = SmallModel();
  options.num_blocks = 2;
  options.hidden = GetParam().hidden;
  options.heads = GetParam().heads;
  options.sequence = GetParam().sequence;
  options.vocabulary = GetParam().vocabulary;
  options.dropout = GetParam().dropout;
  options.tied = GetParam().tied;
  constexpr int kMicroBatch = 5;
  Pipeline pipeline(options, {});
  const at::Tensor loss = pipeline.Run(kMicroBatch);

  const Batch batch = MakeBatch(options, kMicroBatch);
  const ReferenceResult expected = ReferenceGradients(
      options, pipeline.Values(), /*iteration=*/0, kMicroBatch, batch.tokens_BT, batch.targets_BT);
  EXPECT_TRUE(at::equal(loss, expected.loss));
  ExpectBitwiseEqual(pipeline.Sums(), expected.gradients);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, OracleTest,
    ::testing::Values(OracleCase{"Plain", 48, 3, 20, 97, 0.0, false},
                      OracleCase{"Dropout", 48, 3, 20, 97, 0.25, false},
                      OracleCase{"TiedDropout", 40, 5, 17, 60, 0.1, true},
                      OracleCase{"OneHead", 33, 1, 9, 50, 0.0, true},
                      // Contractions longer than the blocks of the matrix product.
                      OracleCase{"FirstLight", 128, 4, 128, 4096, 0.0, false},
                      OracleCase{"LongContractions", 400, 8, 200, 400, 0.0, true}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(StageModelTest, AnySplitOfLayersOverStagesGivesTheSameBits) {
  for (const bool tied : {false, true}) {
    ModelOptions options = SmallModel();
    options.tied = tied;
    options.dropout = 0.1;
    Pipeline whole(options, {});
    const at::Tensor loss = whole.Run(1);
    const std::vector<std::vector<int>> splits = {{3},    {1},       {4},         {1, 3},
                                                  {2, 3}, {1, 2, 4}, {1, 2, 3, 4}};
    for (const std::vector<int>& cuts : splits) {
      SCOPED_TRACE(::testing::Message()
                   << "tied " << tied << ", cuts " << ::testing::PrintToString(cuts));
      Pipeline split(options, cuts);
      EXPECT_TRUE(at::equal(split.Run(1), loss));
      ExpectBitwiseEqual(split.Values(), whole.Values());
      ExpectBitwiseEqual(split.Sums(), whole.Sums());
    }
  }
}

TEST(StageModelTest, SumsDependOnTheOrderOfWAlone) {
  const ModelOptions options = SmallModel();
  Pipeline in_order(options, {2});
  for (const int m : {0, 1, 2}) in_order.Run(m);

  Pipeline shuffled(options, {2});
  for (const int m : {2, 0, 1}) shuffled.Forward(m);
  for (const int m : {1, 2, 0}) shuffled.BackwardInput(m);
  for (const auto& [name, sum] : shuffled.Sums()) {
    EXPECT_EQ(sum.count_nonzero().item<std::int64_t>(), 0) << "I touched the sum of " << name;
  }
  for (const int m : {0, 1, 2}) shuffled.BackwardWeight(m);
  ExpectBitwiseEqual(shuffled.Sums(), in_order.Sums());

  // Another order of W is the same sum up to rounding.
  Pipeline reversed(options, {2});
  for (const int m : {2, 1, 0}) reversed.Run(m);
  const Gradients expected = in_order.Sums();
  for (const auto& [name, sum] : reversed.Sums()) {
    EXPECT_TRUE(sum.allclose(expected.at(name), 1e-4, 1e-4)) << name;
  }
}

TEST(StageModelTest, DropoutIsKeyedByIterationAndMicroBatchAndOffInEvaluation) {
  ModelOptions options = SmallModel();
  options.dropout = 0.2;
  const auto loss = [&](int iteration, int micro_batch, bool evaluate) {
    Pipeline pipeline(options, {2});
    return pipeline.Forward(micro_batch, iteration, evaluate).item<float>();
  };
  EXPECT_EQ(loss(3, 1, false), loss(3, 1, false));
  EXPECT_NE(loss(3, 1, false), loss(4, 1, false));
  EXPECT_EQ(loss(3, 1, true), loss(4, 1, true));
  ModelOptions plain = options;
  plain.dropout = 0.0;
  Pipeline without(plain, {2});
  EXPECT_EQ(loss(3, 1, true), without.Forward(1).item<float>());
}

TEST(StageModelTest, ATiedWeightIsOneTensorOnOneStageAndAFlaggedPairOnTwo) {
  ModelOptions options = SmallModel();
  options.tied = true;
  Pipeline whole(options, {});
  std::vector<std::string> names;
  for (const Parameter& parameter : whole.stages()[0]->parameters()) {
    names.push_back(parameter.name);
    EXPECT_FALSE(parameter.tied) << parameter.name;
    EXPECT_EQ(parameter.decay, parameter.value.dim() == 2) << parameter.name;
  }
  EXPECT_EQ(names, CanonicalParameterNames(options));

  Pipeline split(options, {2, 4});
  for (const auto& stage : split.stages()) {
    for (const Parameter& parameter : stage->parameters()) {
      EXPECT_EQ(parameter.tied, parameter.name == "wte.weight") << parameter.name;
    }
  }
  EXPECT_EQ(split.stages()[0]->parameters().front().name, "wte.weight");
  EXPECT_EQ(split.stages()[2]->parameters().back().name, "wte.weight");
}

// The independent check of the mathematics: a step along the gradient changes the loss by its
// squared norm, to first order.
TEST(StageModelTest, GradientsAgreeWithFiniteDifferences) {
  ModelOptions options = SmallModel();
  options.num_blocks = 1;
  Pipeline pipeline(options, {});
  pipeline.Run(0);
  for (Parameter& parameter : pipeline.stages()[0]->parameters()) {
    const double squared = parameter.gradient.square().sum().item<double>();
    const double step = 0.02 / squared;  // changes the loss of about 180 by 0.02 up and down
    const at::Tensor original = parameter.value.clone();
    parameter.value.add_(parameter.gradient, step);
    const double above = pipeline.Forward(0, 0, true).item<double>();
    parameter.value.copy_(original).sub_(parameter.gradient, step);
    const double below = pipeline.Forward(0, 0, true).item<double>();
    parameter.value.copy_(original);
    EXPECT_NEAR((above - below) / (2.0 * step * squared), 1.0, 0.02) << parameter.name;
  }
}

TEST(StageModelTest, MemoryShrinksAtIAndIsFreeAfterW) {
  const ModelOptions options = SmallModel();
  Pipeline pipeline(options, {2});
  StageModel& first = *pipeline.stages()[0];
  pipeline.Forward(7, 0, /*evaluate=*/true);
  EXPECT_EQ(first.stash_bytes().total(), 0);
  pipeline.Forward(7);
  const StashBytes forward = first.stash_bytes();
  EXPECT_EQ(forward.gradients, 0);
  pipeline.BackwardInput(7);
  const StashBytes input = first.stash_bytes();
  EXPECT_GT(input.gradients, 0);
  EXPECT_LT(input.total(), forward.total());
  // I keeps what the four matrices of a block multiplied, of all that F did.
  EXPECT_LT(input.activations, forward.activations * 2 / 3);
  pipeline.BackwardWeight(7);
  EXPECT_EQ(first.stash_bytes().total(), 0);

  pipeline.Forward(7);
  pipeline.Forward(8);
  EXPECT_EQ(first.stash_bytes().total(), 2 * forward.total());
  pipeline.BackwardInput(8);
  for (auto& stage : pipeline.stages()) stage->ForgetMicroBatch(8);
  EXPECT_EQ(first.stash_bytes().total(), forward.total());
  for (auto& stage : pipeline.stages()) stage->ForgetMicroBatch(7);
  EXPECT_EQ(first.stash_bytes().total(), 0);
  pipeline.Run(7);  // a forgotten micro-batch may start again
}

TEST(StageModelTest, TheHookRunsAfterEachLayerOfEveryAction) {
  const ModelOptions options = SmallModel();
  StageModel stage(options, 2, 4);
  std::vector<std::string> calls;
  const auto hook = [&](const std::string& action) {
    return [&calls, action](int done, int total) {
      calls.push_back(action + std::to_string(done) + "/" + std::to_string(total));
    };
  };
  const at::Tensor x_BTD = at::empty({2, options.sequence, options.hidden}).fill_(0.5);
  stage.Forward({.iteration = 0,
                 .micro_batch = 0,
                 .input = x_BTD,
                 .targets = {},
                 .evaluate = false,
                 .hook = hook("F")});
  stage.BackwardInput(0, at::zeros_like(x_BTD), hook("I"));
  stage.BackwardWeight(0, hook("W"));
  EXPECT_THAT(calls, ElementsAre("F1/2", "F2/2", "I1/2", "I2/2", "W1/2", "W2/2"));
}

TEST(StageModelDeathTest, ActionsOutOfOrderAreBugs) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const ModelOptions options = SmallModel();
  EXPECT_EXIT(
      {
        Pipeline pipeline(options, {});
        pipeline.Forward(0);
        pipeline.BackwardWeight(0);
      },
      ::testing::ExitedWithCode(70), "W of micro-batch 0 must follow its I");
}

}  // namespace
}  // namespace recycle
