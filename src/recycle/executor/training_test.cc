// Whole jobs of forked executors: what they compute does not depend on layout or schedule.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

using Layout = std::pair<int, int>;  // data x pipeline

class Parity : public testing::TestWithParam<std::tuple<Layout, Method>> {};

std::string ParityName(const testing::TestParamInfo<Parity::ParamType>& info) {
  const auto& [layout, method] = info.param;
  return fmt::format("{}x{}_{}", layout.first, layout.second, MethodText(method));
}

TEST_P(Parity, LossesAndNormsAreThoseOfOneProcess) {
  const auto [shape, method] = GetParam();
  for (const int micro_batches : {1, 2, 3, 5}) {
    SCOPED_TRACE(fmt::format("{} micro-batches per pipeline", micro_batches));
    SmallJob job;
    job.data = shape.first;
    job.pipeline = shape.second;
    job.micro_batches = micro_batches;
    job.method = method;
    ExpectParity(job, RunJob(job));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Parity,
    testing::Combine(testing::Values(Layout(1, 1), Layout(1, 2), Layout(2, 2), Layout(3, 2),
                                     Layout(1, 4), Layout(3, 3), Layout(4, 2), Layout(5, 1)),
                     testing::Values(Method::kGPipe, Method::kOneFOneB, Method::kAdaptive)),
    ParityName);

TEST(Training, SevenBlocksOnThreeStagesTiedWithDropoutAndValidation) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 3;
  job.micro_batches = 2;
  job.blocks = 7;
  job.dropout = 0.1;
  job.validate_every = 4;
  ExpectParity(job, RunJob(job));
  job.tied = true;
  ExpectParity(job, RunJob(job));
}

TEST(Training, ShuffledLegalPlansRunInExactlyTheirOrder) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SmallJob job;
    job.data = 3;
    job.pipeline = 3;
    job.micro_batches = 2;
    const TestFolder folder;
    ClusterOptions options = MakeCluster(job, folder.path());
    const Plan plan = ShuffledPlan(job, seed);
    options.make_plan = [&plan](const PlanQuestion&) { return plan; };
    ForkedCluster cluster(options);
    ExpectParity(job, cluster.Run());
    for (const WorkerSchedule& schedule : plan.workers) {
      std::vector<std::string> executed;
      for (const std::string& line : cluster.TraceLines(schedule.worker)) {
        executed.push_back(nlohmann::json::parse(line)["a"]);
      }
      std::vector<std::string> expected;
      for (int t = 0; t < kSmallJobIterations; ++t) {
        for (const Action& action : schedule.actions) expected.push_back(ToString(action));
      }
      EXPECT_EQ(executed, expected) << schedule.worker;
    }
  }
}

TEST(Training, AStopIsAgreedOnByAllAfterAWholeIteration) {
  SmallJob job;
  job.data = 2;
  job.pipeline = 2;
  const TestFolder folder;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.executor.iterations = 1000000;
  options.stop_after_iteration = 3;
  const ClusterResult result = ForkedCluster(options).Run();
  ASSERT_TRUE(result.end.has_value()) << "the job hangs";
  EXPECT_EQ(result.end->how, EndJob::How::kStopped) << result.end->reason;
  EXPECT_TRUE(result.iterations.back().done.stop_agreed);
  EXPECT_EQ(result.end->iterations, static_cast<int>(result.iterations.size()));
  for (const auto& [worker, status] : result.wait_statuses) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << worker << ": " << status;
  }
}

TEST(Training, AFullDiskEndsTheTraceAndNothingElse) {
  SmallJob job;
  job.data = 2;
  job.faults = {"diskfull 0:0 at F of iteration 3"};
  const TestFolder folder;
  ForkedCluster cluster(MakeCluster(job, folder.path()));
  ExpectParity(job, cluster.Run());
  const auto full = cluster.TraceLines(Worker(0, 0)).size();
  EXPECT_GT(full, 0U);
  EXPECT_LT(full, cluster.TraceLines(Worker(1, 0)).size());
}

}  // namespace
}  // namespace recycle
