// Executors die, freeze and lose links; the results are those of the unharmed job.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

// The job of `faults` ends well, with the results of the unharmed one, and repeats at most one
// iteration per failure.
ClusterResult ExpectSurvived(SmallJob job, const std::vector<std::string>& faults) {
  job.faults = faults;
  ClusterResult result = RunJob(job);
  ExpectParity(job, result);
  for (const AnnounceResumed& resumed : result.resumes) EXPECT_LE(resumed.lost_iterations, 1);
  return result;
}

std::vector<WorkerId> Killed(const ClusterResult& result) {
  std::vector<WorkerId> killed;
  for (const auto& [worker, status] : result.wait_statuses) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) killed.push_back(worker);
  }
  return killed;
}

class Kill : public testing::TestWithParam<std::string> {};

TEST_P(Kill, AtAnyPointOfAnyStageLeavesTheResultsAlone) {
  SmallJob job;
  job.data = 3;
  job.pipeline = 2;
  job.micro_batches = 2;
  for (const char* worker : {"1:0", "1:1"}) {
    SCOPED_TRACE(worker);
    const ClusterResult result =
        ExpectSurvived(job, {fmt::format("kill {} at {} of iteration 4", worker, GetParam())});
    EXPECT_EQ(Killed(result), std::vector<WorkerId>{*ParseWorkerId(worker)});
    EXPECT_EQ(result.records.size(), 2U) << "one generation to start, one for the death";
  }
}

INSTANTIATE_TEST_SUITE_P(Points, Kill,
                         testing::Values("F", "I", "W", "send", "recv", "all-reduce", "commit",
                                         "step", "validate", "heartbeat"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Recovery, TwoAtOnceTwoInARowAndOneWhileRegrouping) {
  SmallJob job;
  job.data = 3;
  job.pipeline = 3;
  job.micro_batches = 2;
  job.tied = true;
  ExpectSurvived(job, {"kill 0:0 at F of iteration 3", "kill 2:2 at F of iteration 3"});
  ExpectSurvived(job, {"kill 1:2 at W of iteration 3", "kill 0:2 at I of iteration 4"});
  ExpectSurvived(job, {"kill 1:1 at F of iteration 5", "kill 2:0 at regroup of iteration 5"});
}

// Five in the ring: most survivors are no neighbours of the dead one and must be woken.
TEST(Recovery, NonNeighboursInTheRingAreWoken) {
  SmallJob job;
  job.data = 5;
  job.pipeline = 1;
  job.micro_batches = 2;
  ExpectSurvived(job, {"kill 2:0 at all-reduce of iteration 4", "kill 4:0 at step of iteration 6"});
}

TEST(Recovery, ADeathWhileValidatingRepeatsTheValidation) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 2;
  job.micro_batches = 2;
  job.validate_every = 2;
  ExpectSurvived(job, {"kill 0:1 at step of iteration 4"});
}

TEST(Recovery, ADroppedLinkIsMadeAnewAndNobodyIsLost) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 2;
  job.micro_batches = 2;
  const ClusterResult result = ExpectSurvived(job, {"drop link 0:0-0:1 at F of iteration 4"});
  EXPECT_TRUE(Killed(result).empty());
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_TRUE(result.records[1].lost.empty());
}

TEST(Recovery, AFrozenWorkerIsFencedWhenItWakes) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 2;
  job.micro_batches = 2;
  // The slow one makes sure that there is a job left when the frozen one wakes.
  job.faults = {"stop 0:0 at F of iteration 4", "slow x50 1:1 at F of iteration 5"};
  const TestFolder folder;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.failure_timeout = std::chrono::milliseconds(1000);
  options.on_iteration = [](int iteration, const std::map<WorkerId, pid_t>& pids) {
    if (iteration == 4) kill(pids.at(Worker(0, 0)), SIGCONT);
  };
  const ClusterResult result = ForkedCluster(options).Run();
  ExpectParity(job, result);
  const int status = result.wait_statuses.at(Worker(0, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 75) << status;
}

TEST(Recovery, AWholeStageLostEndsTheJob) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 2;
  job.faults = {"kill stage 1 at W of iteration 3"};
  const ClusterResult result = RunJob(job);
  ASSERT_TRUE(result.end.has_value());
  EXPECT_EQ(result.end->how, EndJob::How::kStageLost) << result.end->reason;
}

}  // namespace
}  // namespace recycle
