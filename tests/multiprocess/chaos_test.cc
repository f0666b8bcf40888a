// Random faults against real jobs, by `recycle chaos`: docs/RECOVERY.md ("Chaos").
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "job.h"

namespace recycle::testing {
namespace {

struct Outcome {
  int code = -1;
  nlohmann::json result;
  std::string progress;
};

// The job of `options` under chaos; its folder is kept if the test fails.
Outcome RunChaos(const Job& job, const std::string& words) {
  const std::string folder = job.folder().string();
  const std::string command = fmt::format(
      "'{}' chaos '{}/job.yaml' --json --run-dir '{}' {} > '{}/result' 2> '{}/progress'",
      RECYCLE_PROGRAM, folder, job.run_folder().string(), words, folder, folder);
  Outcome outcome;
  const int status = std::system(command.c_str());
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream result(folder + "/result");
  outcome.result = nlohmann::json::parse(result, nullptr, /*allow_exceptions=*/false);
  std::ostringstream text;
  text << std::ifstream(folder + "/progress").rdbuf();
  outcome.progress = text.str();
  return outcome;
}

JobOptions Shape(int data, int pipeline, int iterations) {
  return {.data = data, .pipeline = pipeline, .micro_batches = 2, .iterations = iterations};
}

void ExpectAllPass(const Outcome& outcome, int trials) {
  ASSERT_EQ(outcome.code, 0) << outcome.progress;
  fmt::print("{}\n", outcome.result.dump());
  EXPECT_EQ(outcome.result.at("passed"), trials);
  EXPECT_EQ(outcome.result.at("failed"), 0);
  for (const char* kind :
       {"kill", "stop", "slow", "drop", "diskfull", "kill coordinator", "stop coordinator"}) {
    EXPECT_GE(outcome.result.at("fired").value(kind, 0), 1) << kind;
  }
}

TEST(Chaos, SixExecutors) {
  const Job job(Shape(3, 2, 60));
  ExpectAllPass(RunChaos(job, "--trials 140 --seed 1"), 140);
}

TEST(Chaos, NineExecutors) {
  const Job job(Shape(3, 3, 70));
  ExpectAllPass(RunChaos(job, "--trials 60 --seed 1000"), 60);
}

TEST(Chaos, AJobThatCannotRunIsNoPassedTrial) {
  const Job job(Shape(2, 1, 12));
  const Outcome outcome = RunChaos(job, "--trials 1 --set data.text=/no/such/text");
  EXPECT_EQ(outcome.code, 1) << outcome.progress;
  EXPECT_NE(outcome.progress.find("the unharmed run does not end well"), std::string::npos)
      << outcome.progress;
}

TEST(Chaos, TooFewIterationsAreRefused) {
  const Job job(Shape(2, 1, 4));
  const Outcome outcome = RunChaos(job, "--trials 1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.progress.find("train.iterations = 4"), std::string::npos) << outcome.progress;
}

}  // namespace
}  // namespace recycle::testing
