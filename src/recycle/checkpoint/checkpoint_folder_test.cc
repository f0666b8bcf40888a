// A checkpoint is complete or it does not count: whatever step of a save is cut short, whatever
// byte is damaged, and whoever reads meanwhile.
#include "recycle/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "recycle/base/file.h"
#include "recycle/checkpoint/reshard.h"
#include "recycle/checkpoint/shard.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kLayers = 4;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() {
    std::string pattern = (fs::temp_directory_path() / "recycle-checkpoint-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    root_ = folder_ + "/checkpoints";
  }
  ~Checkpoints() override { fs::remove_all(folder_); }

  // One float tensor of a layer, its values a function of iteration and layer.
  static std::vector<float> Values(int iteration, int layer) {
    std::vector<float> values(static_cast<std::size_t>(64 * (layer + 1)));
    std::iota(values.begin(), values.end(), static_cast<float>(1000 * iteration + 100 * layer));
    return values;
  }

  static Manifest Head(int iteration, int generation) {
    Manifest manifest;
    manifest.iteration = iteration;
    manifest.generation = generation;
    manifest.loss = 2.5;
    return manifest;
  }

  static StatusOr<ManifestFile> WriteLayers(const CheckpointFolder& checkpoints, ShardStamp stamp,
                                            int begin, int end, const ShardHooks& hooks = {}) {
    std::vector<std::vector<float>> values;
    std::vector<StateTensor> tensors;
    for (int layer = begin; layer < end; ++layer) values.push_back(Values(stamp.iteration, layer));
    for (int layer = begin; layer < end; ++layer) {
      const std::vector<float>& layer_values = values[static_cast<std::size_t>(layer - begin)];
      for (const std::string_view prefix : {std::string_view(), kFirstMoment, kSecondMoment}) {
        tensors.push_back({.name = fmt::format("{}h.{}.weight", prefix, layer),
                           .shape = {layer + 1, 64},
                           .layer = layer,
                           .bytes = std::as_bytes(std::span(layer_values))});
      }
    }
    return WriteShard(checkpoints.Path(stamp.iteration) + "/" + ShardName(stamp, tensors), stamp,
                      tensors, hooks);
  }

  static Status Save(
      const CheckpointFolder& checkpoints, int iteration, int keep = 2,
      const ShardHooks& hooks = {}, const CommitHook& commit_hook = [](auto) {}) {
    RC_RETURN_IF_ERROR(checkpoints.Create(iteration));
    std::vector<ManifestFile> shards;
    for (const auto& [begin, end] : {std::pair(0, 1), std::pair(1, kLayers)}) {
      RC_ASSIGN_OR_RETURN(ManifestFile shard,
                          WriteLayers(checkpoints, {iteration, 1}, begin, end, hooks));
      shards.push_back(std::move(shard));
    }
    RC_ASSIGN_OR_RETURN(const Manifest manifest,
                        DescribeShards(checkpoints.Path(iteration), Head(iteration, 1), shards));
    return checkpoints.Commit(manifest, keep, commit_hook);
  }

  CheckpointFolder folder() const { return CheckpointFolder(root_); }
  std::vector<int> Complete() const {
    std::vector<int> iterations;
    for (const CheckpointFolder::Entry& entry : folder().List()) {
      if (entry.checkpoint.ok()) iterations.push_back(entry.iteration);
    }
    return iterations;
  }
  std::string Text(const std::string& file) const {
    std::ostringstream text;
    text << std::ifstream(root_ + "/" + file).rdbuf();
    return text.str();
  }

  std::string folder_;
  std::string root_;
};

// Every tensor has the values of its iteration, read by its own bytes alone.
void ExpectValues(const Checkpoint& checkpoint, const std::vector<float>& expected, int layer) {
  std::vector<float> values(expected.size());
  const ManifestTensor* tensor =
      checkpoint.manifest.FindTensor(fmt::format("second_moment.h.{}.weight", layer));
  ASSERT_NE(tensor, nullptr);
  ASSERT_TRUE(
      ReadTensors(checkpoint.path, {{*tensor, std::as_writable_bytes(std::span(values))}}).ok());
  EXPECT_EQ(values, expected);
}

TEST_F(Checkpoints, WhatIsSavedIsFoundVerifiedAndReadBack) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  EXPECT_EQ(Text("latest"), "iter_0000010\n");
  const auto choice = folder().ChooseForResume();
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->notes.empty());
  EXPECT_EQ(choice->checkpoint.manifest.iteration, 10);
  EXPECT_EQ(choice->checkpoint.manifest.loss, 2.5);
  EXPECT_EQ(choice->checkpoint.manifest.tensors.size(), 3U * kLayers);
  EXPECT_TRUE(VerifyCheckpoint(choice->checkpoint).ok());
  for (int layer = 0; layer < kLayers; ++layer) {
    ExpectValues(choice->checkpoint, Values(10, layer), layer);
  }
}

TEST_F(Checkpoints, OnlyTheNewestStayAndOnlyOnceTheNextIsComplete) {
  std::vector<std::vector<int>> before_prune;
  const CommitHook look = [&](CommitPoint point) {
    if (point == CommitPoint::kBeforePrune) before_prune.push_back(Complete());
  };
  for (const int iteration : {10, 20, 30, 40}) {
    ASSERT_TRUE(Save(folder(), iteration, 2, {}, look).ok());
  }
  const std::vector<std::vector<int>> expected = {{10}, {20, 10}, {30, 20, 10}, {40, 30, 20}};
  EXPECT_EQ(before_prune, expected);
  EXPECT_EQ(Complete(), (std::vector<int>{40, 30}));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 3);  // + latest
}

// A child saves and is killed at one point of the save; a complete checkpoint is there before,
// after, and loads.
TEST_F(Checkpoints, AKillAtAnyPointLeavesACompleteOne) {
  ASSERT_TRUE(Save(folder(), 10, /*keep=*/1).ok());
  constexpr int kPoints = 8;  // two per shard, four of the commit
  for (int point = 0; point < kPoints; ++point) {
    SCOPED_TRACE(point);
    const pid_t child = fork();
    if (child == 0) {
      int passed = 0;
      const auto pass = [&] {
        if (passed++ == point) kill(getpid(), SIGKILL);
      };
      const Status saved =
          Save(folder(), 20 + point, /*keep=*/1, {.half_written = pass, .before_rename = pass},
               [&](CommitPoint) { pass(); });
      _exit(saved.ok() ? 1 : 2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the point was not reached";
    const auto choice = folder().ChooseForResume();
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(VerifyCheckpoint(choice->checkpoint).ok());
    const bool is_new = point >= kPoints - 2;  // behind the marker
    EXPECT_EQ(choice->checkpoint.manifest.iteration, is_new ? 20 + point : 10);
    if (!is_new) {
      EXPECT_THAT(choice->notes.at(0), HasSubstr("is not complete"));
    }
    const std::string latest = Text("latest");
    EXPECT_TRUE(OpenCheckpoint(root_ + "/" + latest.substr(0, latest.size() - 1)).ok());
    if (is_new) fs::remove_all(choice->checkpoint.path);
  }
}

TEST_F(Checkpoints, DamageIsRefusedWithASentence) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  const std::string path = folder().Path(10);
  const std::string shard = path + "/layers-00001-00003.g1.safetensors";
  const auto refused = [&](const std::string& says) {
    const auto choice = folder().ChooseForResume();
    ASSERT_FALSE(choice.ok());
    EXPECT_THAT(std::string(choice.status().message()), HasSubstr(says));
  };
  const auto restore = [&] {
    fs::remove_all(root_);
    ASSERT_TRUE(Save(folder(), 10).ok());
  };
  fs::resize_file(shard, fs::file_size(shard) - 1);
  refused("bytes, but the manifest says");
  restore();
  fs::remove(shard);
  refused("No such file");
  restore();
  fs::remove(path + "/manifest.json");
  refused("no manifest.json");
  restore();
  std::ofstream(path + "/manifest.json", std::ios::app) << " ";
  refused("not the one that COMMITTED names");
  restore();
  fs::remove(path + "/COMMITTED");
  refused("is not complete");
  restore();
  fs::remove_all(path);
  refused("'iter_0000010', which is not there");
}

TEST_F(Checkpoints, AFlippedByteOfATensorIsFoundWhenItIsReadAndByVerify) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  const auto checkpoint = OpenCheckpoint(folder().Path(10));
  ASSERT_TRUE(checkpoint.ok());
  const ManifestTensor& tensor = checkpoint->manifest.tensors.back();
  std::fstream file(checkpoint->path + "/" + tensor.file, std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(tensor.begin + 5));
  file.put('\x55');
  file.close();
  std::vector<std::byte> buffer(tensor.num_bytes());
  const Status read = ReadTensors(checkpoint->path, {{tensor, buffer}});
  EXPECT_THAT(std::string(read.message()), HasSubstr("'" + tensor.name + "' is damaged"));
  EXPECT_FALSE(VerifyCheckpoint(*checkpoint).ok());
  EXPECT_TRUE(OpenCheckpoint(checkpoint->path).ok()) << "its bytes are looked at when they load";
}

TEST_F(Checkpoints, AManifestOfAnotherFormatOrThatPointsElsewhereIsRefused) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  const std::string text = Text("iter_0000010/manifest.json");
  ASSERT_TRUE(ManifestFromJson(text).ok());
  const auto refused = [&](const std::string& from, const std::string& to,
                           const std::string& says) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto manifest = ManifestFromJson(changed);
    ASSERT_FALSE(manifest.ok()) << to;
    EXPECT_THAT(std::string(manifest.status().message()), HasSubstr(says));
  };
  refused("recycle-checkpoint/1", "recycle-checkpoint/2", "but this program reads");
  refused("layers-00000-00000.g1.safetensors", "../layers", "no file name");
  refused("\"iteration\": 10", "\"iteration\": \"ten\"", "not a whole number");
  refused("\"layer\": 0", "\"rank\": 0", "'layer' is missing");
  refused("first_moment.h.1.weight", "first_moment.h.9.weight", "state_sha256");
  EXPECT_FALSE(ManifestFromJson("").ok());
  EXPECT_FALSE(ManifestFromJson(text.substr(0, text.size() / 2)).ok());
}

TEST_F(Checkpoints, ALoadThatFailsTwiceIsSteppedOverAndSetAside) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  ASSERT_TRUE(Save(folder(), 20).ok());
  for (int attempt = 0; attempt < LoadAttempts::kFailuresAllowed; ++attempt) {
    const auto choice = folder().ChooseForResume();
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->checkpoint.manifest.iteration, 20);
    ASSERT_TRUE(folder().Attempts().Begin("iter_0000020").ok());
    ASSERT_TRUE(folder().Attempts().Failed("iter_0000020").ok());
  }
  const auto choice = folder().ChooseForResume();
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->checkpoint.manifest.iteration, 10);
  EXPECT_THAT(choice->notes.at(0), HasSubstr("loading it has failed 2 times"));
  EXPECT_TRUE(fs::exists(root_ + "/iter_0000020.unusable"));
  // The way on from 10 meets 20 again, and commits it.
  ASSERT_TRUE(Save(folder(), 20).ok());
  EXPECT_EQ(folder().ChooseForResume()->checkpoint.manifest.iteration, 20);
}

TEST_F(Checkpoints, LoadsThatWereKilledFromOutsideCountOnlyInTheLongRun) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  ASSERT_TRUE(Save(folder(), 20).ok());
  for (int kill = 0; kill < LoadAttempts::kUnfinishedAllowed; ++kill) {
    EXPECT_EQ(folder().ChooseForResume()->checkpoint.manifest.iteration, 20);
    ASSERT_TRUE(folder().Attempts().Begin("iter_0000020").ok());
  }
  EXPECT_EQ(folder().ChooseForResume()->checkpoint.manifest.iteration, 10);
}

TEST_F(Checkpoints, AWriterOfAnOlderGenerationCannotMixIn) {
  ASSERT_TRUE(folder().Create(10).ok());
  ASSERT_TRUE(WriteLayers(folder(), {10, 1}, 0, 2).ok());  // the frozen one's
  std::vector<ManifestFile> shards;
  for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, kLayers)}) {
    const auto shard = WriteLayers(folder(), {10, 2}, begin, end);
    ASSERT_TRUE(shard.ok());
    shards.push_back(*shard);
  }
  const auto manifest = DescribeShards(folder().Path(10), Head(10, 2), shards);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(folder().Commit(*manifest, 2, [](auto) {}).ok());
  EXPECT_FALSE(fs::exists(folder().Path(10) + "/layers-00000-00001.g1.safetensors"));
  ASSERT_TRUE(WriteLayers(folder(), {10, 1}, 0, 2).ok());  // it wakes
  EXPECT_TRUE(VerifyCheckpoint(folder().ChooseForResume()->checkpoint).ok());
}

TEST_F(Checkpoints, AFullDiskIsAnErrorAndThePreviousOneStays) {
  ASSERT_TRUE(Save(folder(), 10, 1).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 600, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(absl::IsResourceExhausted(Save(folder(), 20, 1)) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto choice = folder().ChooseForResume();
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->checkpoint.manifest.iteration, 10);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST_F(Checkpoints, AnyNumberOfFilesHoldsTheSameState) {
  ASSERT_TRUE(Save(folder(), 10).ok());
  const Checkpoint source = *OpenCheckpoint(folder().Path(10));
  for (const int files : {1, 3, 4, 9}) {
    const std::string target = folder_ + fmt::format("/as-{}", files);
    const auto made = Reshard(source, target, files);
    ASSERT_TRUE(made.ok()) << made.status();
    const auto opened = OpenCheckpoint(target);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(VerifyCheckpoint(*opened).ok());
    EXPECT_EQ(StateSha256(opened->manifest), StateSha256(source.manifest));
    EXPECT_EQ(opened->manifest.files.size(), static_cast<std::size_t>(std::min(files, kLayers)));
    EXPECT_EQ(opened->manifest.loss, source.manifest.loss);
    EXPECT_FALSE(Reshard(source, target, files).ok()) << "the target is there already";
  }
}

}  // namespace
}  // namespace recycle
