// A stage that loses all its workers comes back from its peers' memory: real processes, real
// SIGKILL, no disk. Docs: "Snapshots" and "When a whole stage is gone" of docs/RECOVERY.md.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <regex>

#include "job.h"

namespace recycle::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;
constexpr int kIterations = 14;
constexpr int kEvery = 4;

// Slow enough for copies to get through long before the next fault.
JobOptions WithSnapshots(std::vector<std::string> inject) {
  inject.emplace_back("slow x32 0:0 at F of iteration 1");
  JobOptions options = ThreeByTwo(kIterations, std::move(inject));
  options.snapshot_every = kEvery;
  return options;
}

// The unharmed job without snapshots.
const Job& Reference() {
  static const Job* const job = [] {
    JobOptions options = WithSnapshots({});
    options.inject.clear();
    options.snapshot_every = 0;
    auto* const made = new Job(options);
    EXPECT_EQ(made->Run(), 0) << made->Output();
    return made;
  }();
  return *job;
}

// Losses as the launcher prints them, the last of an iteration: the only place when no file can be
// written.
std::vector<double> PrintedLosses(const Job& job) {
  static const std::regex kLine(R"(iteration +(\d+)/ +\d+ \|.* lm loss: ([0-9.E+-]+) \|)");
  std::map<int, double> losses;
  const std::string output = job.Output();
  for (std::sregex_iterator match(output.begin(), output.end(), kLine), end; match != end;
       ++match) {
    losses[std::stoi((*match)[1])] = std::stod((*match)[2]);
  }
  std::vector<double> values;
  for (const auto& [iteration, loss] : losses) values.push_back(loss);
  return values;
}

// All places are filled again, so the results are those of the unharmed run to the bit, every
// sample is counted once, and no more than the interval was done again.
void ExpectRestored(const Job& job, const std::vector<int>& iterations) {
  std::vector<int> restored;
  int lost = 0;
  for (const nlohmann::json& event : job.Events("restored")) {
    EXPECT_EQ(event.at("from"), "memory") << event;
    EXPECT_LE(event.at("lost_iterations"), kEvery) << event;
    restored.push_back(event.at("iteration"));
    lost += event.at("lost_iterations").get<int>();
  }
  EXPECT_EQ(restored, iterations) << job.Output();
  EXPECT_EQ(job.Summary().at("lost_iterations"), lost);
  EXPECT_EQ(job.Summary().at("parameters_sha256"), Reference().Summary().at("parameters_sha256"));
  EXPECT_EQ(job.Losses(), Reference().Losses());
  EXPECT_EQ(job.SamplesPerIteration(), Reference().SamplesPerIteration());
}

// Every process that was there when the disk filled up can write no file, the coordinator included.
TEST(Snapshot, AWholeStageComesBackWhileEveryWriteToADiskFails) {
  Job job(WithSnapshots(
      {"diskfull all at F of iteration 2", "diskfull coordinator at step of iteration 2"}));
  job.Start();
  ASSERT_TRUE(job.AwaitOutput(fmt::format("iteration {:8}/{:8} |", kEvery + 2, kIterations)))
      << job.Output();
  for (const auto& [worker, pid] : job.WorkerPids()) {
    if (worker.ends_with(":1")) kill(pid, SIGKILL);
  }
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  EXPECT_THAT(job.Output(), HasSubstr(fmt::format(
                                "every stage has the state of the snapshot in memory of iteration "
                                "{}",
                                kEvery)));
  EXPECT_EQ(Differs(PrintedLosses(job), Reference().Losses(), kTolerance), "") << job.Output();
}

TEST(Snapshot, AStageKilledWhileItMakesOneComesBackFromTheOneBefore) {
  Job job(WithSnapshots({fmt::format("kill stage 1 at snapshot of iteration {}", 2 * kEvery)}));
  ASSERT_EQ(job.Run(), 0) << job.Output();
  ExpectRestored(job, {kEvery});
}

// The second stage dies before the first snapshot of its own making after the first restore counts
// for it: holders have been found anew.
TEST(Snapshot, TwoStagesComeBackOneAfterTheOther) {
  Job job(WithSnapshots({fmt::format("kill stage 1 at step of iteration {}", kEvery + 2),
                         fmt::format("kill stage 0 at step of iteration {}", kEvery + 3)}));
  ASSERT_EQ(job.Run(), 0) << job.Output();
  // Who has come back has nothing of its own: everybody makes one right after.
  ExpectRestored(job, {kEvery, kEvery + 1});
}

TEST(Snapshot, ANewCoordinatorKnowsWhoHoldsWhat) {
  JobOptions options =
      WithSnapshots({fmt::format("kill coordinator at step of iteration {}", kEvery + 2),
                     fmt::format("kill stage 0 at step of iteration {}", 2 * kEvery - 1)});
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(job.Events("leader").size(), 2U) << job.Output();
  ExpectRestored(job, {kEvery});
}

// Kills stage 1 and 1:0, which holds the copy of its state, at once, once there is a snapshot.
void KillStageAndItsHolder(const Job& job) {
  ASSERT_TRUE(job.AwaitEvents("snapshot", 1)) << job.Output();
  for (const auto& [worker, pid] : job.WorkerPids()) {
    if (worker.ends_with(":1") || worker == "1:0") kill(pid, SIGKILL);
  }
}

TEST(Snapshot, AStageThatDiesWithItsHolderComesBackFromDisk) {
  JobOptions options = WithSnapshots({});
  options.checkpoint_every = 1;
  Job job(options);
  job.Start();
  KillStageAndItsHolder(job);
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  const std::vector<nlohmann::json> restored = job.Events("restored");
  ASSERT_EQ(restored.size(), 1U) << job.Output();
  EXPECT_EQ(restored[0].at("from"), "disk");
  EXPECT_EQ(Differs(job.Losses(), Reference().Losses(), kTolerance), "");
  EXPECT_EQ(job.SamplesPerIteration(), Reference().SamplesPerIteration());
}

TEST(Snapshot, WithoutADiskThatIsTheEndAndSaysWhatIsLost) {
  Job job(WithSnapshots({}));
  job.Start();
  KillStageAndItsHolder(job);
  EXPECT_EQ(job.Wait(), 3) << job.Output();
  EXPECT_THAT(job.Output(), HasSubstr("stage 1 has no live worker left"));
  EXPECT_THAT(job.Output(), HasSubstr("nobody who lives holds stage 1"));
}

}  // namespace
}  // namespace recycle::testing
