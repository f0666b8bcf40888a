#include "recycle/app/checkpoint_committer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "recycle/checkpoint/shard.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kLayers = 3;

class CheckpointCommitterTest : public ::testing::Test {
 protected:
  CheckpointCommitterTest() {
    std::filesystem::remove_all(root_);
    committer_.emplace(CheckpointCommitter::Options{.folder = root_,
                                                    .keep = 2,
                                                    .num_layers = kLayers,
                                                    .identity = {{"model.layers", "3"}},
                                                    .at_point = {}},
                       SystemClock(), [] {});
  }
  ~CheckpointCommitterTest() override { std::filesystem::remove_all(root_); }

  // Writes the shard of one layer as a worker does.
  ShardWritten Write(int iteration, int generation, int layer) {
    EXPECT_TRUE(folder_.Create(iteration).ok());
    const ShardStamp stamp{.iteration = iteration, .generation = generation};
    const float value = static_cast<float>(iteration);
    const std::vector<StateTensor> tensors = {{.name = "w" + std::to_string(layer),
                                               .shape = {1},
                                               .layer = layer,
                                               .bytes = std::as_bytes(std::span(&value, 1))}};
    const auto file =
        WriteShard(folder_.Path(iteration) + "/" + ShardName(stamp, tensors), stamp, tensors, {});
    EXPECT_TRUE(file.ok()) << file.status();
    return {.generation = Generation(generation),
            .version = iteration,
            .layer_begin = layer,
            .layer_end = layer + 1,
            .file = file->name,
            .bytes = static_cast<std::int64_t>(file->bytes),
            .sha256 = file->sha256,
            .error = ""};
  }

  void Save(int iteration, int generation, const std::vector<int>& layers) {
    for (const int layer : layers) committer_->OnShard(Write(iteration, generation, layer));
  }

  // What has become of the checkpoints, once nothing is on its way.
  std::vector<CheckpointCommitter::Result> Finish() {
    committer_->Finish();
    return committer_->TakeResults();
  }

  const std::string root_ = ::testing::TempDir() + "recycle-committer";
  const CheckpointFolder folder_{root_};
  std::optional<CheckpointCommitter> committer_;
};

TEST_F(CheckpointCommitterTest, IsCompleteOnceAllLayersOfOneGenerationAndTheLossAreThere) {
  Save(4, 1, {0, 1});
  committer_->OnIteration(4, 2.5);
  Save(4, 2, {2});  // a writer has died; its peers write all of it again
  EXPECT_THAT(committer_->TakeResults(), IsEmpty());
  Save(4, 2, {0, 1});
  const std::vector<CheckpointCommitter::Result> results = Finish();
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].error, "");
  EXPECT_EQ(results[0].bytes, 3 * sizeof(float));
  const StatusOr<Checkpoint> checkpoint = OpenCheckpoint(folder_.Path(4));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->manifest.generation, 2);
  EXPECT_EQ(checkpoint->manifest.loss, 2.5);
  EXPECT_TRUE(VerifyCheckpoint(*checkpoint).ok());
  // Nothing of the first generation is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.Path(4)), {}), 2 + 3);
}

TEST_F(CheckpointCommitterTest, WaitsForTheIterationsResults) {
  Save(4, 1, {0, 1, 2});
  EXPECT_THAT(Finish(), IsEmpty());
  EXPECT_FALSE(OpenCheckpoint(folder_.Path(4)).ok());
}

TEST_F(CheckpointCommitterTest, WhatLacksAShardIsGivenUpWhenALaterOneBegins) {
  committer_->OnIteration(4, 2.5);
  committer_->OnIteration(8, 2.0);
  Save(4, 1, {0, 2});
  Save(8, 2, {0, 1, 2});
  const std::vector<CheckpointCommitter::Result> results = Finish();
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(results[0].iteration, 4);
  EXPECT_THAT(results[0].error, HasSubstr("died"));
  EXPECT_EQ(results[1].iteration, 8);
  EXPECT_EQ(results[1].error, "");
}

TEST_F(CheckpointCommitterTest, AShardThatCannotBeWrittenIsToldOnce) {
  const ShardWritten failed{.generation = Generation(1),
                            .version = 4,
                            .layer_begin = 0,
                            .layer_end = 1,
                            .file = "",
                            .bytes = 0,
                            .sha256 = "",
                            .error = "No space left on device"};
  committer_->OnShard(failed);
  committer_->OnShard(failed);
  Save(8, 1, {0, 1, 2});
  committer_->OnIteration(8, 2.0);
  const std::vector<CheckpointCommitter::Result> results = Finish();
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_THAT(results[0].error, HasSubstr("No space left"));
  EXPECT_EQ(results[1].error, "");
}

TEST_F(CheckpointCommitterTest, ASecondCopyOfWhatIsCompleteIsRemoved) {
  committer_->OnIteration(4, 2.5);
  Save(4, 1, {0, 1, 2});
  const ShardWritten late = Write(4, 2, 1);
  committer_->OnShard(late);
  EXPECT_FALSE(std::filesystem::exists(folder_.Path(4) + "/" + late.file));
  EXPECT_THAT(Finish(), SizeIs(1));
  const StatusOr<Checkpoint> checkpoint = OpenCheckpoint(folder_.Path(4));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->manifest.generation, 1);
}

}  // namespace
}  // namespace recycle
