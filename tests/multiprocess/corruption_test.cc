// Memory that corrupts data without any error: a bit of one worker's parameters flips while the job
// runs. Docs: docs/RECOVERY.md ("Silent corruption").
//
// Worker 0:0 waits a good deal longer than it works, so that a process has time to start.
#include <gtest/gtest.h>

#include "job.h"

namespace recycle::testing {
namespace {

constexpr int kEvery = 5;

JobOptions WithCorruption(int data, int iterations) {
  JobOptions options = ThreeByTwo(
      iterations, {"slow x60 0:0 at F of iteration 1", "corrupt 1:0 at F of iteration 7"});
  options.data = data;
  options.arguments = {"--set", "resilience.compare_every=" + std::to_string(kEvery)};
  return options;
}

TEST(Corruption, IsFoundNamedAndRepairedFromAPeer) {
  Job job(WithCorruption(3, 80));
  // In the end all peers have the same parameters, or the job would fail.
  ASSERT_EQ(job.Run(), 0) << job.Output();
  const auto failures = job.Events("failure_detected");
  ASSERT_EQ(failures.size(), 1u) << job.Output();
  EXPECT_EQ(failures[0].at("worker"), "1:0");
  EXPECT_EQ(failures[0].at("cause"), "corruption");
  EXPECT_EQ(failures[0].at("detected_by"), "0:0 2:0");
  EXPECT_LE(failures[0].at("iteration"), 7 + kEvery + 1);  // one more while the hashes travel
  const auto rejoined = job.Events("rejoined");
  ASSERT_EQ(rejoined.size(), 1u) << job.Output();
  EXPECT_EQ(rejoined[0].at("worker"), "1:0");
  EXPECT_EQ(job.Lines("metrics.jsonl").back().at("workers_live"), 6);
}

TEST(Corruption, OfOneOfTwoEndsTheJob) {
  Job job(WithCorruption(2, 80));
  EXPECT_EQ(job.Run(), 1) << job.Output();
  const std::string output = job.Output();
  EXPECT_NE(
      output.find("the workers of stage 0 (0:0 1:0) have different parameters or moments after "
                  "10 iterations"),
      std::string::npos)
      << output;
  EXPECT_NE(output.find("they were equal last after 5 iterations"), std::string::npos) << output;
}

}  // namespace
}  // namespace recycle::testing
