// Steps that go ahead of their verdict: the results, to the bit, are those of steps that wait.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLarge = 1.0e6F;  // the gradient has to be clipped

SmallJob Job(int data, int pipeline, int micro_batches) {
  SmallJob job;
  job.data = data;
  job.pipeline = pipeline;
  job.micro_batches = micro_batches;
  job.staggered = true;
  job.clip = 30.0;  // more than any gradient of the job has by itself
  return job;
}

// Runs `job` for `iterations` by the same order of actions, staggered or not.
ClusterResult RunShuffled(SmallJob job, bool staggered, int iterations,
                          const std::vector<GradientPoison>& poisons, const TestFolder& folder) {
  job.staggered = staggered;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.executor.iterations = iterations;
  options.executor.optimizer.lr = 0.002;
  options.executor.poisons = poisons;
  options.make_plan = [job](const PlanQuestion&) { return ShuffledPlan(job, 7); };
  return ForkedCluster(options).Run();
}

// By the traces: has some stage begun the iteration before another had reduced the one before? A
// stage has reduced once one of its workers has: the others hold the sum too by then, though their
// actions may end later.
bool SomebodyWentAhead(const TestFolder& folder, const SmallJob& job, int iteration) {
  std::int64_t first_begin = std::numeric_limits<std::int64_t>::max();
  std::map<StageId, std::int64_t> reduced;
  for (const WorkerId worker : LiveWorkers({.data = job.data, .pipeline = job.pipeline}, {})) {
    std::ifstream file(fmt::format("{}/trace-{}-{}.jsonl", folder.path(), worker.pipeline.value(),
                                   worker.stage.value()));
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json json = nlohmann::json::parse(line);
      const Action action = *ParseAction(json.at("a").get<std::string>());
      const std::int64_t end = json.at("e");
      if (json.at("it") == iteration && HasMicroBatch(action.kind)) {
        first_begin = std::min(first_begin, end);
      }
      if (json.at("it") == iteration - 1 && action.kind == ActionKind::kReduceGrad) {
        std::int64_t& first = reduced.try_emplace(worker.stage, end).first->second;
        first = std::min(first, end);
      }
    }
  }
  return std::any_of(reduced.begin(), reduced.end(),
                     [&](const auto& stage) { return first_begin < stage.second; });
}

TEST(Staggered, ResultsAreThoseOfOneProcess) {
  for (const auto& [data, pipeline, micro_batches] :
       {std::tuple(2, 2, 2), std::tuple(1, 4, 2), std::tuple(3, 3, 1), std::tuple(2, 4, 1)}) {
    SCOPED_TRACE(fmt::format("{}x{}, {} micro-batches", data, pipeline, micro_batches));
    SmallJob job = Job(data, pipeline, micro_batches);
    job.blocks = 3;
    job.dropout = 0.1;
    ExpectParity(job, RunJob(job));
    job.tied = true;
    job.validate_every = 4;
    ExpectParity(job, RunJob(job));
  }
}

TEST(Staggered, StagesGoAheadAfterTenCleanIterationsAndLeaveTheVeryBits) {
  const SmallJob job = Job(2, 3, 3);
  const TestFolder folder;
  const TestFolder other;
  const ClusterResult staggered = RunShuffled(job, true, 30, {}, folder);
  ExpectSameBits(staggered, RunShuffled(job, false, 30, {}, other));
  EXPECT_TRUE(staggered.rollbacks.empty());
  int ahead = 0;
  for (int iteration = 2; iteration <= 30; ++iteration) {
    const bool went_ahead = SomebodyWentAhead(folder, job, iteration);
    if (iteration <= 11) {
      EXPECT_FALSE(went_ahead) << iteration;
    }
    ahead += went_ahead ? 1 : 0;
  }
  EXPECT_GT(ahead, 0);
}

// Early training clips all the time: nobody goes ahead, and nothing rolls back.
TEST(Staggered, ClippingInEveryIterationNeverRollsBack) {
  SmallJob job = Job(2, 2, 2);
  job.clip = 0.01;
  const ClusterResult result = RunJob(job);
  ExpectParity(job, result);
  EXPECT_TRUE(result.rollbacks.empty());
}

// Gradients too large, infinite, or no numbers, from every stage; eleven iterations apart, so that
// stages go ahead again in between.
TEST(Staggered, WrongStepsAreMadeAgainOnEveryStageToTheBit) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "not tied");
    SmallJob job = Job(2, 3, 2);
    job.tied = tied;
    job.dropout = 0.1;
    const std::vector<GradientPoison> poisons = {
        {Worker(0, 0), 11, kLarge}, {Worker(1, 1), 23, kLarge},    {Worker(0, 2), 35, kLarge},
        {Worker(1, 0), 47, kNan},   {Worker(0, 1), 59, kInfinity}, {Worker(1, 2), 71, -kInfinity}};
    const TestFolder folder;
    const TestFolder other;
    const ClusterResult staggered = RunShuffled(job, true, 84, poisons, folder);
    ExpectSameBits(staggered, RunShuffled(job, false, 84, poisons, other));
    std::map<int, std::set<int>> rolled_back;  // stages, by iteration
    for (const AnnounceRollback& rollback : staggered.rollbacks) {
      rolled_back[rollback.verdict.iteration].insert(rollback.stage.value());
    }
    for (const GradientPoison& poison : poisons) {
      EXPECT_EQ(rolled_back[poison.iteration], (std::set<int>{0, 1, 2})) << poison.iteration;
    }
    EXPECT_EQ(staggered.skipped_steps.size(), 3U);
    EXPECT_EQ(staggered.records.size(), 1 + poisons.size()) << "a generation each";
  }
}

// Without the bits before it: equal on all workers of a stage to the bit (they compare hashes after
// every step), and with exact ones to rounding, whoever has stepped when the verdict comes.
TEST(Staggered, WrongStepsAreUndoneByTheirInverse) {
  const SmallJob job = Job(3, 3, 2);
  const auto run = [](SmallJob ran, bool exact, const std::vector<std::string>& faults) {
    const TestFolder folder;
    ran.faults = faults;
    ClusterOptions options = MakeCluster(ran, folder.path());
    options.executor.iterations = 40;
    options.executor.compare_every = 1;
    options.executor.exact_rollback = exact;
    options.executor.poisons = {
        {Worker(0, 1), 11, kLarge}, {Worker(0, 0), 23, kNan}, {Worker(0, 2), 35, kLarge}};
    return ForkedCluster(options).Run();
  };
  const ClusterResult exact = run(job, true, {});
  for (const std::vector<std::string>& faults : {std::vector<std::string>{},
                                                 {"kill 1:0 at step of iteration 12"},
                                                 {"kill 1:1 at commit of iteration 12"},
                                                 {"kill 1:2 at F of iteration 13"}}) {
    SCOPED_TRACE(faults.empty() ? "nobody dies" : faults.front());
    const ClusterResult result = run(job, false, faults);
    ASSERT_TRUE(result.end.has_value()) << "the job hangs";
    ASSERT_EQ(result.end->how, EndJob::How::kDone) << result.end->reason;
    ASSERT_EQ(result.iterations.size(), exact.iterations.size());
    for (std::size_t t = 0; t < exact.iterations.size(); ++t) {
      EXPECT_NEAR(Loss(result.iterations[t]), Loss(exact.iterations[t]),
                  1e-5 * Loss(exact.iterations[t]))
          << t;
    }
    EXPECT_EQ(result.skipped_steps.size(), 1U);
    EXPECT_GE(result.rollbacks.size(), 3U);
    EXPECT_EQ(result.records.size(), 4 + faults.size()) << "nobody's state differs";
  }
}

TEST(Staggered, TenStepsInARowThatAreNoneEndTheJob) {
  for (const bool staggered : {true, false}) {
    SmallJob job = Job(2, 2, 2);
    std::vector<GradientPoison> poisons;
    for (int t = 12; t < 22; ++t) poisons.push_back({Worker(t % 2, t % 2), t, kNan});
    const TestFolder folder;
    const ClusterResult result = RunShuffled(job, staggered, 40, poisons, folder);
    ASSERT_TRUE(result.end.has_value()) << "the job hangs";
    EXPECT_EQ(result.end->how, EndJob::How::kDiverged) << result.end->reason;
    EXPECT_EQ(result.end->iterations, 22);
    EXPECT_EQ(result.skipped_steps.size(), 10U);
  }
}

TEST(Staggered, AStopIsAgreedOnByAll) {
  const SmallJob job = Job(2, 3, 2);
  const TestFolder folder;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.executor.iterations = 1000000;
  options.stop_after_iteration = 14;
  const ClusterResult result = ForkedCluster(options).Run();
  ASSERT_TRUE(result.end.has_value()) << "the job hangs";
  EXPECT_EQ(result.end->how, EndJob::How::kStopped) << result.end->reason;
  EXPECT_TRUE(result.iterations.back().done.stop_agreed);
  EXPECT_EQ(result.end->iterations, static_cast<int>(result.iterations.size()));
}

// The verdict on iteration 12 is that it has to be clipped. Somebody dies around it.
TEST(Staggered, ARollbackAndADeathAtOnce) {
  const std::vector<std::vector<std::string>> races = {
      {"kill 1:1 at regroup of iteration 13"},
      {"kill 1:2 at validate of iteration 12"},
      {"kill 1:0 at step of iteration 12"},
      {"kill 1:1 at commit of iteration 12"},
      {"kill 1:2 at F of iteration 13"},
      {"kill 1:0 at F of iteration 13", "kill 1:2 at regroup of iteration 13"},
      {"kill 1:2 at all-reduce of iteration 12", "kill 1:1 at regroup of iteration 13"},
  };
  const std::vector<GradientPoison> poisons = {{Worker(0, 1), 11, kLarge}};
  const SmallJob job = Job(3, 3, 2);
  const auto run = [&poisons](SmallJob ran, const std::vector<std::string>& faults) {
    const TestFolder folder;
    ran.faults = faults;
    ClusterOptions options = MakeCluster(ran, folder.path());
    options.executor.poisons = poisons;
    return ForkedCluster(options).Run();
  };
  const ClusterResult calm = run(job, {});
  for (const std::vector<std::string>& faults : races) {
    SCOPED_TRACE(faults.front());
    const ClusterResult result = run(job, faults);
    ASSERT_TRUE(result.end.has_value()) << "the job hangs";
    ASSERT_EQ(result.end->how, EndJob::How::kDone) << result.end->reason;
    ASSERT_EQ(result.iterations.size(), calm.iterations.size());
    for (std::size_t t = 0; t < calm.iterations.size(); ++t) {
      EXPECT_NEAR(Loss(result.iterations[t]), Loss(calm.iterations[t]),
                  1e-5 * Loss(calm.iterations[t]))
          << t;
    }
    EXPECT_FALSE(result.rollbacks.empty());
    const auto killed = std::count_if(result.wait_statuses.begin(), result.wait_statuses.end(),
                                      [](const auto& entry) { return WIFSIGNALED(entry.second); });
    // Whoever judges first stops the others, on their way to their own judgement or not.
    const bool may_miss = faults.front().find("at validate") != std::string::npos;
    EXPECT_LE(killed, std::ssize(faults));
    EXPECT_GE(killed, may_miss ? 0 : std::ssize(faults));
  }
}

}  // namespace
}  // namespace recycle
