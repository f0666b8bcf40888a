// What a job has saved is always there and always whole: real processes, everything killed at every
// step of a save, resumed in the same and in other layouts. Docs: docs/CHECKPOINTS.md.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "job.h"
#include "recycle/base/prng.h"
#include "recycle/checkpoint/checkpoint_folder.h"

namespace recycle::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;
constexpr int kIterations = 14;
constexpr int kEvery = 4;
constexpr int kKilledBySignal = 128 + SIGKILL;

JobOptions WithCheckpoints() {
  JobOptions options = ThreeByTwo(kIterations, {});
  options.checkpoint_every = kEvery;
  return options;
}

// The same job going on in `run_folder`.
JobOptions Resumed(JobOptions options, const fs::path& run_folder) {
  options.inject.clear();
  options.run_folder = run_folder;
  options.arguments = {"--resume", "--no-inject"};
  return options;
}

// The unharmed job without checkpoints.
const Job& Reference() {
  static const Job* const job = [] {
    JobOptions options = WithCheckpoints();
    options.checkpoint_every = 0;
    auto* const made = new Job(options);
    EXPECT_EQ(made->Run(), 0) << made->Output();
    return made;
  }();
  return *job;
}

std::string ParametersOf(const Job& job) { return job.Summary().at("parameters_sha256"); }

fs::path Checkpoints(const Job& job) { return job.run_folder() / "checkpoints"; }

// The checkpoints that are complete, with every byte read and compared.
std::set<int> Undamaged(const Job& job) {
  std::set<int> iterations;
  for (const CheckpointFolder::Entry& entry : CheckpointFolder(Checkpoints(job).string()).List()) {
    if (!entry.checkpoint.ok()) continue;
    const Status verified = VerifyCheckpoint(*entry.checkpoint);
    EXPECT_TRUE(verified.ok()) << verified;
    iterations.insert(entry.iteration);
  }
  return iterations;
}

// The iteration that `latest` names: it must be complete.
int Latest(const Job& job) {
  std::string name;
  std::ifstream(Checkpoints(job) / "latest") >> name;
  const StatusOr<Checkpoint> checkpoint = OpenCheckpoint((Checkpoints(job) / name).string());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return checkpoint.ok() ? checkpoint->manifest.iteration : -1;
}

int LastIteration(const Job& job) {
  int last = 0;
  for (const nlohmann::json& line : job.Lines("metrics.jsonl")) last = line.at("iteration");
  return last;
}

// Goes on with the run of `killed` to its end: the results are those of the unharmed job, to the
// bit. Returns the iteration it went on from.
int ExpectResumesToTheSameEnd(const Job& killed) {
  Job resumed(Resumed(WithCheckpoints(), killed.run_folder()));
  EXPECT_EQ(resumed.Run(), 0) << resumed.Output();
  EXPECT_EQ(ParametersOf(resumed), ParametersOf(Reference()));
  EXPECT_EQ(resumed.Losses(), Reference().Losses());
  EXPECT_EQ(resumed.SamplesPerIteration().size(), static_cast<std::size_t>(kIterations));
  const std::vector<nlohmann::json> restored = resumed.Events("restored");
  if (restored.empty()) return -1;
  EXPECT_EQ(restored.back().at("from"), "disk");
  return restored.back().at("iteration");
}

class A6KillEverything : public ::testing::TestWithParam<std::string> {};

// In the third save: of the two before, the commit may still be on its way when a worker is at the
// next, but not both.
TEST_P(A6KillEverything, AtAStepOfASaveLeavesACompleteCheckpoint) {
  constexpr int kKilledSave = 3 * kEvery;
  JobOptions options = WithCheckpoints();
  options.inject = {fmt::format("kill all at {} of iteration {}", GetParam(), kKilledSave)};
  Job job(options);
  EXPECT_EQ(job.Run(), kKilledBySignal);
  const std::set<int> complete = Undamaged(job);
  ASSERT_FALSE(complete.empty());
  const int newest = *complete.rbegin();
  if (GetParam() == "checkpoint.latest" || GetParam() == "checkpoint.prune") {
    EXPECT_EQ(newest, kKilledSave);
  } else {
    EXPECT_LT(newest, kKilledSave);
  }
  EXPECT_TRUE(complete.contains(Latest(job)));
  const int last = LastIteration(job);
  EXPECT_EQ(ExpectResumesToTheSameEnd(job), newest);
  fmt::print("killed at {} after iteration {}, resumed from {}\n", GetParam(), last, newest);
}

INSTANTIATE_TEST_SUITE_P(Points, A6KillEverything,
                         ::testing::Values("checkpoint", "checkpoint.rename", "checkpoint.manifest",
                                           "checkpoint.marker", "checkpoint.latest",
                                           "checkpoint.prune"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// More of them: bench/checkpoint_kills.
TEST(AcceptanceTest, A6KillingEverythingAtRandomTimesLosesLittle) {
  Prng prng(20261130);
  fmt::print("seed 20261130\n");
  JobOptions options = WithCheckpoints();
  options.iterations = 100'000;
  options.checkpoint_every = 2;
  const auto job = std::make_unique<Job>(options);
  job->Start();
  for (int kill_number = 0; kill_number < 3; ++kill_number) {
    std::unique_ptr<Job> resumed;
    if (kill_number > 0) {
      resumed = std::make_unique<Job>(Resumed(options, job->run_folder()));
      resumed->Start();
    }
    Job& running = resumed != nullptr ? *resumed : *job;
    const std::size_t saved = running.Events("checkpoint").size();
    ASSERT_TRUE(running.AwaitEvents("checkpoint", saved + 1 + prng.Below(4))) << running.Output();
    kill(running.pid(), SIGKILL);
    EXPECT_EQ(running.Wait(), kKilledBySignal);
    EXPECT_TRUE(Undamaged(*job).contains(Latest(*job)));
  }
}

TEST(Checkpoint, SigtermSavesAndResumesToTheSameEnd) {
  JobOptions options = WithCheckpoints();
  options.checkpoint_every = 1000;
  // Slow enough to be met on its way.
  options.inject = {"slow x4 0:0 at F of iteration 1"};
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(2));
  kill(job.pid(), SIGTERM);
  ASSERT_EQ(job.Wait(), 143) << job.Output();
  EXPECT_EQ(Latest(job), LastIteration(job));
  EXPECT_LT(LastIteration(job), kIterations);
  ExpectResumesToTheSameEnd(job);
}

// Saves in 3 x 2 and goes on in `options`' layout: the same state, and the same losses.
void ExpectGoesOnIn(const Job& saved, int data, int pipeline) {
  SCOPED_TRACE(fmt::format("{} x {}", data, pipeline));
  const int from = Latest(saved);
  const StatusOr<Checkpoint> checkpoint =
      OpenCheckpoint(CheckpointFolder(Checkpoints(saved).string()).Path(from));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const fs::path copy = saved.folder() / fmt::format("{}x{}", data, pipeline);
  fs::copy(saved.run_folder(), copy, fs::copy_options::recursive);
  JobOptions options = WithCheckpoints();
  options.data = data;
  options.pipeline = pipeline;
  options.micro_batches = 6 / data;
  JobOptions only_load = options;
  only_load.iterations = from;  // nothing is left to do: the gathered state as it was loaded
  Job loaded(Resumed(only_load, copy));
  ASSERT_EQ(loaded.Run(), 0) << loaded.Output();
  EXPECT_EQ(ParametersOf(loaded), ParametersSha256(checkpoint->manifest));
  Job going_on(Resumed(options, copy));
  ASSERT_EQ(going_on.Run(), 0) << going_on.Output();
  EXPECT_EQ(Differs(going_on.Losses(), Reference().Losses(), kTolerance), "");
  EXPECT_EQ(going_on.SamplesPerIteration(), Reference().SamplesPerIteration());
}

// With a worker missing when it is saved.
TEST(AcceptanceTest, A7LoadsInEveryLayoutWhateverTheOneThatSavedIt) {
  JobOptions options = WithCheckpoints();
  options.inject = {fmt::format("kill 1:1 at F of iteration {}", kEvery),
                    fmt::format("kill all at checkpoint.prune of iteration {}", kEvery)};
  Job job(options);
  ASSERT_EQ(job.Run(), kKilledBySignal);
  ASSERT_EQ(Latest(job), kEvery) << job.Output();
  ExpectGoesOnIn(job, 1, 1);
  ExpectGoesOnIn(job, 2, 3);
  ExpectGoesOnIn(job, 1, 4);
}

TEST(Checkpoint, AWriterThatDiesIsReplacedByItsPeers) {
  JobOptions options = WithCheckpoints();
  options.inject = {fmt::format("kill 1:1 at checkpoint of iteration {}", kIterations)};
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(Undamaged(job), (std::set{3 * kEvery, kIterations}));
  EXPECT_EQ(Latest(job), kIterations);
  EXPECT_EQ(Differs(job.Losses(), Reference().Losses(), kTolerance), "");
}

// P35 and P37: neither a half-made folder nor a damaged one stops a job.
TEST(Checkpoint, AFolderThatIsHalfMadeOrDamagedIsSteppedOver) {
  JobOptions options = WithCheckpoints();
  options.inject = {fmt::format("kill all at checkpoint.prune of iteration {}", 2 * kEvery)};
  Job job(options);
  ASSERT_EQ(job.Run(), kKilledBySignal);
  fs::create_directory(Checkpoints(job) / "iter_0000099");
  for (const auto& file : fs::directory_iterator(Checkpoints(job) / CheckpointName(2 * kEvery))) {
    if (file.path().extension() != ".safetensors") continue;
    std::fstream shard(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(-1, std::ios::end);
    shard.put('\x7f');
  }
  Job resumed(Resumed(WithCheckpoints(), job.run_folder()));
  ASSERT_EQ(resumed.Run(), 0) << resumed.Output();
  EXPECT_THAT(resumed.Output(), HasSubstr("iter_0000099' is not complete"));
  EXPECT_THAT(resumed.Output(), HasSubstr("is damaged"));
  EXPECT_EQ(resumed.Events("restored").back().at("iteration"), kEvery);
  EXPECT_EQ(ParametersOf(resumed), ParametersOf(Reference()));
}

TEST(Checkpoint, WhatCannotBeResumedIsRefusedByName) {
  JobOptions options = WithCheckpoints();
  options.checkpoint_every = 0;
  options.iterations = 1;
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  Job without(Resumed(options, job.run_folder()));
  EXPECT_EQ(without.Run(), 2);
  EXPECT_THAT(without.Output(), HasSubstr("no complete checkpoint"));
  options.checkpoint_every = 1;
  Job saved(options);
  ASSERT_EQ(saved.Run(), 0) << saved.Output();
  JobOptions changed = Resumed(options, saved.run_folder());
  changed.hidden = 32;
  Job other_model(changed);
  EXPECT_EQ(other_model.Run(), 2);
  EXPECT_THAT(other_model.Output(), HasSubstr("model.hidden is 32, but the checkpoint"));
  JobOptions not_resumed = options;
  not_resumed.run_folder = saved.run_folder();
  Job not_empty(not_resumed);
  EXPECT_EQ(not_empty.Run(), 2);
  EXPECT_THAT(not_empty.Output(), HasSubstr("--resume"));
}

// All workers of a stage at once: everybody goes back, and the job ends as the unharmed one does.
TEST(Checkpoint, AStageThatLosesAllItsWorkersIsRestoredFromDisk) {
  JobOptions options = WithCheckpoints();
  options.inject = {fmt::format("kill stage 1 at F of iteration {}", 2 * kEvery - 1)};
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  const std::vector<nlohmann::json> restored = job.Events("restored");
  ASSERT_EQ(restored.size(), 1U) << job.Output();
  EXPECT_EQ(restored[0].at("from"), "disk");
  EXPECT_EQ(restored[0].at("iteration"), kEvery);
  EXPECT_LE(restored[0].at("lost_iterations"), kEvery);
  EXPECT_EQ(job.Summary().at("lost_iterations"), restored[0].at("lost_iterations"));
  EXPECT_EQ(ParametersOf(job), ParametersOf(Reference()));
  EXPECT_EQ(job.Losses(), Reference().Losses());
}

TEST(Checkpoint, AStageThatIsLostBeforeThereIsACheckpointEndsTheJob) {
  JobOptions options = WithCheckpoints();
  options.inject = {"kill stage 1 at F of iteration 2"};
  Job job(options);
  EXPECT_EQ(job.Run(), 3) << job.Output();
  EXPECT_THAT(job.Output(), HasSubstr("stage 1 has no live worker left"));
  EXPECT_THAT(job.Output(), HasSubstr("no complete checkpoint"));
}

}  // namespace
}  // namespace recycle::testing
