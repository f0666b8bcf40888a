// train.reproducible with real processes: summary.json has the same parameters_sha256 whoever dies
// or comes back, and whatever parallel.data is at the same global batch. Docs: docs/RECOVERY.md
// ("Reproducible sums").
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "job.h"

namespace recycle::testing {
namespace {

constexpr int kGlobalBatch = 6;
constexpr int kIterations = 16;

JobOptions ReproducibleJob(int data, bool staggered) {
  JobOptions options{
      .data = data, .pipeline = 2, .micro_batches = kGlobalBatch / data, .iterations = kIterations};
  options.dropout = 0.1;
  options.staggered = staggered;
  options.clip = staggered ? 100.0 : 1.0;  // steps are staggered once ten were not clipped
  options.arguments = {"--set", "train.reproducible=true"};
  return options;
}

struct Outcome {
  std::string parameters;
  std::vector<double> losses;
  std::vector<double> norms;
};

Outcome OutcomeOf(const Job& job) {
  return {job.Summary().at("parameters_sha256"), job.Losses(), job.GradientNorms()};
}

// The unharmed run of one pipeline.
const Outcome& Expected(bool staggered) {
  static std::map<bool, Outcome> known;
  if (!known.contains(staggered)) {
    Job job(ReproducibleJob(1, staggered));
    EXPECT_EQ(job.Run(), 0) << job.Output();
    known[staggered] = OutcomeOf(job);
  }
  return known[staggered];
}

void ExpectSameBits(const Outcome& found, const Outcome& expected) {
  EXPECT_EQ(found.parameters, expected.parameters);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.norms, expected.norms);
}

void ExpectSameBits(const JobOptions& options, bool staggered) {
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(job.Events("failure_detected").size(), options.inject.size());
  ExpectSameBits(OutcomeOf(job), Expected(staggered));
}

class ReproducibleTest : public ::testing::TestWithParam<bool> {};

TEST_P(ReproducibleTest, ParametersDoNotDependOnDataParallelism) {
  for (const int data : {2, 3}) {
    SCOPED_TRACE(fmt::format("{} pipelines", data));
    ExpectSameBits(ReproducibleJob(data, GetParam()), GetParam());
  }
}

TEST_P(ReproducibleTest, ParametersDoNotDependOnWhoDies) {
  JobOptions options = ReproducibleJob(3, GetParam());
  options.inject = {"kill 1:1 at W of iteration 13"};
  ExpectSameBits(options, GetParam());
  options.inject = {"kill 1:1 at W of iteration 4", "kill 0:0 at all-reduce of iteration 12",
                    "kill 2:0 at I of iteration 14"};
  ExpectSameBits(options, GetParam());
}

// 1:1 dies and is started again; 0:0 is slowed so that it is back before the end.
TEST_P(ReproducibleTest, ParametersDoNotDependOnWhoComesBack) {
  JobOptions options = ReproducibleJob(3, GetParam());
  options.inject = {"slow x60 0:0 at F of iteration 1", "kill 1:1 at I of iteration 4"};
  options.arguments.insert(options.arguments.end(), {"--set", "resilience.respawn=0.1"});
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(job.Events("rejoined").size(), 1U);
  ExpectSameBits(OutcomeOf(job), Expected(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Steps, ReproducibleTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "staggered" : "synchronous"; });

// Checkpoints and snapshots have what the next sums need.
TEST(ReproducibleRestoreTest, AJobThatGoesBackEndsWithTheSameBits) {
  for (const bool from_memory : {false, true}) {
    JobOptions options = ReproducibleJob(2, /*staggered=*/false);
    (from_memory ? options.snapshot_every : options.checkpoint_every) = 5;
    options.inject = {"kill 0:1 at F of iteration 8", "kill 1:1 at F of iteration 8"};
    Job job(options);
    ASSERT_EQ(job.Run(), 0) << job.Output();
    ASSERT_EQ(job.Events("restored").size(), 1U);
    EXPECT_EQ(job.Events("restored").front().at("from"), from_memory ? "memory" : "disk");
    ExpectSameBits(OutcomeOf(job), Expected(false));
  }
}

// Steps far too long: from one iteration to the next gradients grow beyond what the sums were made
// for, and in the end beyond any number.
TEST(ReproducibleOverflowTest, ParametersDoNotDependOnWhoDiesWhenSumsAreMadeAgain) {
  const auto wild = [](int data, const std::vector<std::string>& faults) {
    JobOptions options = ReproducibleJob(data, false);
    options.iterations = 4;
    options.inject = faults;
    options.arguments.insert(
        options.arguments.end(),
        {"--set", "optimizer.lr=1e4", "--set", "optimizer.warmup=0", "--set", "optimizer.clip=0"});
    return options;
  };
  std::vector<std::string> parameters;
  for (const JobOptions& options :
       {wild(1, {}), wild(3, {}), wild(3, {"kill 1:1 at W of iteration 2"})}) {
    Job job(options);
    ASSERT_EQ(job.Run(), 0) << job.Output();
    EXPECT_FALSE(job.Events("sums_redone").empty());
    parameters.push_back(job.Summary().at("parameters_sha256"));
  }
  EXPECT_EQ(parameters[1], parameters[0]);
  EXPECT_EQ(parameters[2], parameters[0]);
}

}  // namespace
}  // namespace recycle::testing
