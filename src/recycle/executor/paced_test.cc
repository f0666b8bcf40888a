// Paced workers as real processes that exchange real tensors: an iteration takes what its plan
// says, to the microsecond, and what is done to them on purpose shows as much.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "recycle/plan/timeline.h"
#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

constexpr double kTimeScale = 0.5;
constexpr double kMicrosecond = 1e-3;  // in ms

// 3 pipelines, 4 stages, 6 micro-batches; costs that no two sums share.
PlanRequest Request() {
  StageCosts stage;
  stage.forward = 7 * kTicksPerUnit;
  stage.backward_input = 9 * kTicksPerUnit;
  stage.backward_weight = 5 * kTicksPerUnit;
  stage.optimizer = 3 * kTicksPerUnit;
  stage.all_reduce = 4 * kTicksPerUnit;
  PlanRequest request;
  request.parallel = {.data = 3, .pipeline = 4};
  request.micro_batches = 6;
  request.costs.stages.assign(4, stage);
  request.costs.send_forward.assign(3, 3 * kTicksPerUnit / 2);
  request.costs.send_backward = request.costs.send_forward;
  request.options = {.decoupled = true, .staggered = false};
  return request;
}

ClusterOptions PacedCluster(const std::string& folder) {
  SmallJob job;
  job.data = 3;
  job.pipeline = 4;
  job.micro_batches = 6;
  ClusterOptions cluster = MakeCluster(job, folder);
  cluster.executor.iterations = 5;
  cluster.executor.pace = Pace{.time_scale = kTimeScale, .costs = Request().costs};
  cluster.make_plan = [](const PlanQuestion& question) {
    PlanRequest request = Request();
    request.failed = question.failed;
    request.slow = question.slow;
    return MakePlan(request);
  };
  return cluster;
}

double PlannedMs() { return ToUnits(MakePlan(Request()).value().period.value()); }

// Of the iterations after the first, by the workers' time.
std::vector<double> IterationMs(const ClusterResult& result) {
  std::vector<double> times;
  for (std::size_t i = 1; i < result.iterations.size(); ++i) {
    times.push_back(ToMilliseconds(result.iterations[i].done.stepped_at -
                                   result.iterations[i - 1].done.stepped_at) /
                    kTimeScale);
  }
  return times;
}

TEST(Paced, AnIterationTakesWhatItsPlanSays) {
  const TestFolder folder;
  const ClusterResult result = ForkedCluster(PacedCluster(folder.path())).Run();
  ASSERT_TRUE(result.end.has_value()) << "the job hangs";
  ASSERT_EQ(result.end->how, EndJob::How::kDone) << result.end->reason;
  const std::vector<double> times = IterationMs(result);
  ASSERT_EQ(times.size(), 4U);
  for (const double ms : times) EXPECT_NEAR(ms, PlannedMs(), kMicrosecond);
}

// Whatever a pipeline does comes after its first F.
TEST(Paced, AMillisecondOfDelayInACriticalActionIsOne) {
  const TestFolder folder;
  ClusterOptions cluster = PacedCluster(folder.path());
  cluster.executor.disturbances = {{.worker = Worker(1, 0),
                                    .iteration = 2,
                                    .action = *ParseAction("0F1.0"),
                                    .delay = std::chrono::milliseconds(1)}};
  const ClusterResult result = ForkedCluster(std::move(cluster)).Run();
  ASSERT_TRUE(result.end.has_value()) << "the job hangs";
  const std::vector<double> times = IterationMs(result);
  ASSERT_EQ(times.size(), 4U);
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_NEAR(times[i], PlannedMs() + (i == 1 ? 1 : 0), kMicrosecond) << "iteration " << i + 2;
  }
}

TEST(Paced, WithoutAMessageTheJobStandsUntilTheLinksAreMadeAnew) {
  const TestFolder folder;
  ClusterOptions cluster = PacedCluster(folder.path());
  cluster.executor.disturbances = {
      {.worker = Worker(1, 1), .iteration = 2, .action = *ParseAction("1F1.3"), .swallowed = true}};
  cluster.failure_timeout = std::chrono::milliseconds(600);
  const ClusterResult result = ForkedCluster(std::move(cluster)).Run();
  ASSERT_TRUE(result.end.has_value()) << "the job hangs";
  EXPECT_EQ(result.end->how, EndJob::How::kDone) << result.end->reason;
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_TRUE(result.records.back().lost.empty()) << "nobody died";
  EXPECT_NE(result.records.back().reason.find("nobody has finished an action for 3."),
            std::string::npos)
      << result.records.back().reason;
}

}  // namespace
}  // namespace recycle
