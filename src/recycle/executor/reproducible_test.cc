// Reproducible sums: the parameters have the same bits whatever the layout and whoever dies, also
// where a gradient does not fit its sums and a stage begins them again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <limits>

#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr double kFarTooSmall = 1e-6;

SmallJob ReproducibleJob(int data, int pipeline, bool staggered) {
  SmallJob job;
  job.data = data;
  job.pipeline = pipeline;
  job.micro_batches = 6 / data;  // the same global batch
  job.blocks = 3;
  job.dropout = 0.1;
  job.staggered = staggered;
  if (staggered) job.clip = 30.0;  // more than any gradient of the job has by itself
  job.reproducible = true;
  return job;
}

struct Extras {
  double presumed_norm = 1.0;
  std::vector<GradientPoison> poisons = {};
};

ClusterResult RunWith(SmallJob job, const std::vector<std::string>& faults, const Extras& extras) {
  job.faults = faults;
  const TestFolder folder;
  ClusterOptions options = MakeCluster(job, folder.path());
  options.executor.presumed_norm = extras.presumed_norm;
  options.executor.poisons = extras.poisons;
  return ForkedCluster(options).Run();
}

std::ptrdiff_t CountKilled(const ClusterResult& result) {
  return std::count_if(result.wait_statuses.begin(), result.wait_statuses.end(),
                       [](const auto& entry) { return WIFSIGNALED(entry.second); });
}

class Reproducible : public testing::TestWithParam<bool> {};

TEST_P(Reproducible, EqualBitsForAnyDataParallelismAndResultsThoseOfFloats) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "not tied");
    SmallJob job = ReproducibleJob(1, 2, GetParam());
    job.tied = tied;
    const ClusterResult one = RunWith(job, {}, {});
    ExpectParity(job, one);
    EXPECT_TRUE(one.redone.empty());
    for (const int data : {2, 3, 6}) {
      SCOPED_TRACE(fmt::format("{} pipelines", data));
      SmallJob other = ReproducibleJob(data, 2, GetParam());
      other.tied = tied;
      ExpectSameBits(RunWith(other, {}, {}), one);
    }
  }
}

TEST_P(Reproducible, EqualBitsWhoeverDiesAndWhenever) {
  const SmallJob job = ReproducibleJob(3, 3, GetParam());
  const ClusterResult calm = RunWith(job, {}, {});
  // Staggered steps begin after ten iterations.
  const int t = GetParam() ? 14 : 4;
  const auto kill = [](const char* worker, const char* point, int iteration) {
    return fmt::format("kill {} at {} of iteration {}", worker, point, iteration);
  };
  const std::vector<std::vector<std::string>> deaths = {
      {kill("1:0", "F", t)},
      {kill("1:1", "W", t)},
      {kill("1:2", "all-reduce", t)},
      {kill("1:2", "commit", t)},
      {kill("1:0", "step", t)},
      {kill("1:0", "W", t - 1), kill("0:1", "I", t + 1), kill("2:2", "commit", t + 2)},
      {kill("0:0", "F", t), kill("1:0", "W", t), kill("0:1", "recv", t)},
  };
  for (const std::vector<std::string>& faults : deaths) {
    SCOPED_TRACE(faults.front());
    const ClusterResult result = RunWith(job, faults, {});
    ExpectSameBits(result, calm);
    EXPECT_EQ(CountKilled(result), std::ssize(faults));
  }
}

// The first gradient is presumed to be tiny, and does not fit.
TEST_P(Reproducible, AGradientThatDoesNotFitIsSummedAgainAndLeavesTheSameBits) {
  const Extras tiny{.presumed_norm = kFarTooSmall};
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "not tied");
    SmallJob job = ReproducibleJob(1, 3, GetParam());
    job.tied = tied;
    const ClusterResult one = RunWith(job, {}, tiny);
    ExpectParity(job, one);
    ASSERT_FALSE(one.redone.empty());
    for (const Quantum& quantum : one.redone) EXPECT_EQ(quantum.iteration, 0);
    for (const std::vector<std::string>& faults : std::vector<std::vector<std::string>>{
             {},
             {"kill 1:1 at regroup of iteration 1"},
             {"kill 1:0 at W of iteration 1", "kill 0:1 at regroup of iteration 1"}}) {
      SCOPED_TRACE(faults.empty() ? "nobody dies" : faults.front());
      SmallJob other = ReproducibleJob(3, 3, GetParam());
      other.tied = tied;
      const ClusterResult result = RunWith(other, faults, tiny);
      ExpectSameBits(result, one);
      EXPECT_FALSE(result.redone.empty());
      EXPECT_EQ(CountKilled(result), std::ssize(faults));
    }
  }
}

// After a gradient that is none the quantum is the first one's, which does not fit, again.
TEST_P(Reproducible, AGradientThatIsNotFiniteMakesNoStepAnywhere) {
  const Extras bad{.presumed_norm = kFarTooSmall, .poisons = {{Worker(0, 1), 3, kNoNumber}}};
  const ClusterResult one = RunWith(ReproducibleJob(1, 3, GetParam()), {}, bad);
  const ClusterResult three = RunWith(ReproducibleJob(3, 3, GetParam()), {}, bad);
  ExpectSameBits(three, one);
  for (const ClusterResult* result : {&one, &three}) {
    ASSERT_EQ(result->skipped_steps.size(), 1U);
    EXPECT_EQ(result->skipped_steps.front().iteration, 3);
    EXPECT_TRUE(std::any_of(result->redone.begin(), result->redone.end(),
                            [](const Quantum& quantum) { return quantum.iteration == 4; }));
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, Reproducible, testing::Bool(),
                         [](const auto& info) { return info.param ? "staggered" : "synchronous"; });

// A stage finds out when others have stepped the iteration already and are in the next one. The
// poison is far above the norm before, and has to be clipped, too.
TEST(ReproducibleStaggered, SumsAreMadeAgainWhileOthersAreAhead) {
  const SmallJob job = ReproducibleJob(3, 3, /*staggered=*/true);
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE(fmt::format("stage {}", stage));
    const Extras large{.poisons = {{Worker(0, stage), 13, 1e8F}}};
    const ClusterResult staggered = RunWith(job, {}, large);
    ASSERT_EQ(staggered.redone.size(), 1U);
    EXPECT_EQ(staggered.redone.front().stage.value(), stage);
    EXPECT_EQ(staggered.redone.front().iteration, 13);
    EXPECT_FALSE(staggered.rollbacks.empty());
    for (const char* fault : {"kill 1:1 at W of iteration 14", "kill 1:0 at F of iteration 15"}) {
      SCOPED_TRACE(fault);
      const ClusterResult result = RunWith(job, {fault}, large);
      ExpectSameBits(result, staggered);
      EXPECT_EQ(CountKilled(result), 1);
    }
  }
}

}  // namespace
}  // namespace recycle
