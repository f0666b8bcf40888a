// Executors die, freeze and lose links; the results are those of the unharmed job.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "recycle/base/prng.h"
#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

// F, I or W of a micro-batch in an iteration; B is two of them.
using Work = std::pair<int, Action>;

struct Execution {
  WorkerId worker;
  std::int64_t end_us = 0;
};

// By the traces; regenerations are no work done.
std::map<Work, std::vector<Execution>> Executions(const ForkedCluster& cluster,
                                                  const Parallelism& parallel) {
  std::map<Work, std::vector<Execution>> executions;
  for (const WorkerId worker : LiveWorkers(parallel, {})) {
    for (const std::string& line : cluster.TraceLines(worker)) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_discarded() || json.contains("rg")) continue;
      Action action = *ParseAction(json.at("a").get<std::string>());
      if (!HasMicroBatch(action.kind)) continue;
      const bool both = action.kind == ActionKind::kBackward;
      if (both) action.kind = ActionKind::kBackwardInput;
      executions[{json.at("it"), action}].push_back({worker, json.at("e")});
      if (!both) continue;
      action.kind = ActionKind::kBackwardWeight;
      executions[{json.at("it"), action}].push_back({worker, json.at("e")});
    }
  }
  return executions;
}

// recovery-rules.md, I4: an executed action runs again only if its executor is dead.
void ExpectOnlyTheDeadsWorkRanAgain(const ForkedCluster& cluster, const Parallelism& parallel,
                                    const ClusterResult& result) {
  std::set<WorkerId> lost;
  for (const GenerationRecord& record : result.records) {
    for (const LostWorker& worker : record.lost) lost.insert(worker.worker);
  }
  for (auto& [work, executions] : Executions(cluster, parallel)) {
    std::vector<Execution> ordered = executions;
    std::sort(ordered.begin(), ordered.end(),
              [](const Execution& a, const Execution& b) { return a.end_us < b.end_us; });
    for (std::size_t i = 0; i + 1 < ordered.size(); ++i) {
      EXPECT_TRUE(lost.contains(ordered[i].worker))
          << work.second << " of iteration " << work.first << " by live " << ordered[i].worker;
    }
  }
}

// The job of `faults` ends well, with the results of the unharmed one, and repeats nothing but what
// died.
ClusterResult ExpectSurvived(SmallJob job, const std::vector<std::string>& faults) {
  job.faults = faults;
  const TestFolder folder;
  const ClusterOptions options = MakeCluster(job, folder.path());
  ForkedCluster cluster(options);
  ClusterResult result = cluster.Run();
  ExpectParity(job, result);
  ExpectOnlyTheDeadsWorkRanAgain(cluster, options.executor.parallel, result);
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

TEST_P(Kill, WithStaggeredStepsToo) {
  SmallJob job;
  job.data = 3;
  job.pipeline = 3;
  job.micro_batches = 2;
  job.staggered = true;
  job.clip = 1000;
  for (const char* worker : {"1:0", "1:1", "1:2"}) {
    SCOPED_TRACE(worker);
    const ClusterResult result =
        ExpectSurvived(job, {fmt::format("kill {} at {} of iteration 14", worker, GetParam())});
    EXPECT_EQ(Killed(result), std::vector<WorkerId>{*ParseWorkerId(worker)});
    EXPECT_TRUE(result.rollbacks.empty());
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

// The stage of the one is committed, that of the other is held open by a slow peer; then both are
// dead, and with them the only logs of what passed between them.
TEST(Recovery, ABoundaryTensorWhoseOnlyLogDiedIsRegenerated) {
  struct Case {
    const char* what;
    std::vector<std::string> faults;
    int regenerated;
  };
  const std::vector<Case> cases = {
      {"a gradient, by F and I",
       {"slow x300 0:0 at W of iteration 4 for 1s", "kill 1:1 at commit of iteration 4",
        "kill 1:0 at regroup of iteration 4"},
       2 * 2},
      {"an activation, by F",
       {"slow x300 0:1 at W of iteration 4 for 1s", "kill 1:0 at commit of iteration 4",
        "kill 1:1 at regroup of iteration 4"},
       2},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.what);
    SmallJob job;
    job.data = 3;
    job.pipeline = 2;
    job.micro_batches = 2;
    job.dropout = 0.1;
    const ClusterResult result = ExpectSurvived(job, test.faults);
    EXPECT_EQ(Killed(result).size(), 2U);
    int regenerated = 0;
    for (const AnnounceResumed& resumed : result.resumes)
      regenerated += resumed.regenerated_actions;
    EXPECT_EQ(regenerated, test.regenerated);
  }
}

// Death before the last hop of the ring: its right neighbour lacks a piece of the sum, its left one
// has them all. The one hands over to the other, and nothing of that stage runs again.
TEST(Recovery, WhoHasTheReducedGradientHandsItOver) {
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    SmallJob job;
    job.data = 3;
    job.pipeline = 3;
    job.micro_batches = 2;
    job.tied = stage != 1;
    job.faults = {fmt::format("kill 1:{} at all-reduce of iteration 4", stage)};
    const TestFolder folder;
    ClusterOptions options = MakeCluster(job, folder.path());
    options.executor.all_reduce_fault_hop = 3;
    ForkedCluster cluster(options);
    const ClusterResult result = cluster.Run();
    ExpectParity(job, result);
    const auto executions = Executions(cluster, options.executor.parallel);
    const Action weight{ActionKind::kBackwardWeight, StageId(stage), {PipelineId(1), 0}};
    EXPECT_EQ(executions.at({4, weight}).back().worker, Worker(1, stage));
  }
}

// Any workers at any points of any iterations, several in a row or at once; a stage keeps at least
// one. A failing seed is named.
class RandomDeaths : public testing::TestWithParam<bool> {};

TEST_P(RandomDeaths, CostNothingButTheirOwnWork) {
  const bool staggered = GetParam();
  int deaths_met = 0;
  int regenerated = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Prng prng(seed);
    SmallJob job;
    job.data = 3;
    job.pipeline = 1 + static_cast<int>(prng.Below(4));
    job.micro_batches = 1 + static_cast<int>(prng.Below(3));
    job.blocks = 3;
    job.tied = prng.Below(2) == 0;
    job.dropout = 0.1;
    job.validate_every = static_cast<int>(prng.Below(3));
    if (staggered) {
      job.staggered = true;
      job.clip = 1000;
      job.validate_every *= 8;  // that iteration is validated before its step
    }
    job.method = prng.Below(2) == 0 ? Method::kAdaptive : Method::kOneFOneB;
    static const char* const kPoints[] = {"F",          "I",      "W",    "send",     "recv",
                                          "all-reduce", "commit", "step", "validate", "regroup"};
    std::vector<std::string> faults;
    const int first = (staggered ? 12 : 2) + static_cast<int>(prng.Below(3));
    for (int stage = 0; stage < job.pipeline; ++stage) {
      const auto deaths = static_cast<int>(prng.Below(3));
      const auto home = static_cast<int>(prng.Below(3));
      for (int i = 0; i < deaths; ++i) {
        faults.push_back(fmt::format("kill {}:{} at {} of iteration {}", (home + i) % 3, stage,
                                     kPoints[prng.Below(std::size(kPoints))],
                                     first + static_cast<int>(prng.Below(2))));
      }
    }
    const ClusterResult result = ExpectSurvived(job, faults);
    deaths_met += static_cast<int>(Killed(result).size());
    for (const AnnounceResumed& resumed : result.resumes)
      regenerated += resumed.regenerated_actions;
    if (testing::Test::HasFailure()) {
      for (const std::string& fault : faults) ADD_FAILURE() << fault;
      break;
    }
  }
  fmt::print("{} deaths, {} actions regenerated\n", deaths_met, regenerated);
}

INSTANTIATE_TEST_SUITE_P(Recovery, RandomDeaths, testing::Bool(),
                         [](const auto& info) { return info.param ? "Staggered" : "Synchronous"; });

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

// What does not fit into memory is kept in a file: the results are the same.
// Nobody dies, and nothing that was connected breaks: only the two ends know that they did not
// meet.
TEST(Recovery, ALinkThatCannotBeConnectedIsMadeAnew) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 2;
  job.micro_batches = 2;
  const ClusterResult result = ExpectSurvived(job, {"drop link 0:0-1:1 at regroup"});
  ASSERT_FALSE(result.records.empty());
  for (const GenerationRecord& record : result.records) EXPECT_TRUE(record.lost.empty());
}

TEST(Recovery, WhatANetworkSwallowsIsSentAgain) {
  SmallJob job;
  job.data = 3;
  job.pipeline = 3;
  job.micro_batches = 2;
  const TestFolder folder;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.failure_timeout = std::chrono::milliseconds(600);
  for (const char* const action : {"1F0.1", "1I0.1", "1F2.0"}) {
    const Action sends = *ParseAction(action);
    options.executor.disturbances.push_back({.worker = {sends.micro_batch.home, sends.stage},
                                             .iteration = 4,
                                             .action = sends,
                                             .swallowed = true});
  }
  const ClusterResult result = ForkedCluster(options).Run();
  ExpectParity(job, result);
  ASSERT_GE(result.records.size(), 2U);
  for (const GenerationRecord& record : result.records) EXPECT_TRUE(record.lost.empty());
}

TEST(Recovery, ABoundaryLogThatSpillsServesAsWell) {
  SmallJob job;
  job.data = 3;
  job.pipeline = 3;
  job.micro_batches = 2;
  job.faults = {"kill 1:1 at I of iteration 4", "kill 2:2 at W of iteration 6"};
  const TestFolder folder;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.executor.log_bytes = 1000;
  options.executor.log_folder = folder.path();
  const ClusterResult result = ForkedCluster(options).Run();
  ExpectParity(job, result);
  EXPECT_EQ(Killed(result).size(), 2U);
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
