// What `recycle profile` measures, and that the planner takes it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "job.h"

namespace recycle::testing {
namespace {

using nlohmann::json;

struct Answer {
  int code = 0;
  std::string text;  // standard output
};

Answer Recycle(const std::string& words) {
  Answer answer;
  FILE* pipe = popen(fmt::format("{} {}", RECYCLE_PROGRAM, words).c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    answer.text.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

void ExpectWithinATenth(const char* what, std::size_t stage, double measured, double predicted) {
  fmt::print("stage {}: {} measured {:.0f}, predicted {:.0f} ({:+.1f}%)\n", stage, what, measured,
             predicted, 100 * (measured / predicted - 1));
  EXPECT_LE(std::abs(measured - predicted), 0.1 * predicted) << what << " of stage " << stage;
}

// What rides on each tensor between stages: a norm or a verdict.
constexpr std::int64_t kRiderBytes = 16;

TEST(Profile, MeasuresWhatTheDryRunPredictsAndThePlannerReads) {
  Job job({.data = 2,
           .pipeline = 3,
           .micro_batches = 4,
           .micro_batch_size = 2,
           .layers = 6,
           .hidden = 64,
           .sequence = 64,
           .command = "profile",
           // Without the job's faults is how a profile is made.
           .inject = {"kill 1:1 at F of iteration 3"},
           .arguments = {"--iterations", "20"}});
  const std::string profile_file = (job.folder() / "profile.json").string();
  job.AddArguments({"--output", profile_file});
  ASSERT_EQ(job.Run(), 0) << job.Output();
  const json profile = json::parse(std::ifstream(profile_file));

  EXPECT_EQ(profile.at("iterations"), 18);
  EXPECT_EQ(profile.at("skipped"), 2);
  for (const json& stage : profile.at("stages")) {
    for (const char* kind : {"F", "I", "W"}) {
      EXPECT_EQ(stage.at(kind).at("samples"), 18 * 2 * 4) << kind;
      EXPECT_GT(stage.at(kind).at("median_ms"), 0.0) << kind;
      EXPECT_GE(stage.at(kind).at("p95_ms"), stage.at(kind).at("median_ms")) << kind;
    }
    EXPECT_EQ(stage.at("all-reduce").at("samples"), 18);
  }
  // Two boundaries, two directions, two pipelines, every micro-batch on each.
  ASSERT_EQ(profile.at("links").size(), 8U);
  for (const json& link : profile.at("links")) {
    EXPECT_EQ(link.at("samples"), 18 * 4);
    EXPECT_GT(link.at("median_ms"), 0.0);
    EXPECT_GT(link.at("latency_ms"), 0.0);
  }
  fmt::print("an iteration: {} ms measured, {} ms by its schedule with the measured costs\n",
             profile.at("iteration").at("median_ms").dump(),
             profile.at("planned_iteration_ms").dump());

  const std::string config = (job.folder() / "job.yaml").string();
  const Answer dry_run = Recycle("train " + config + " --dry-run --json");
  ASSERT_EQ(dry_run.code, 0);
  const json predicted = json::parse(dry_run.text);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const json& costs = profile.at("costs").at("stages").at(stage);
    const json& expected = predicted.at("plan").at("costs").at("stages").at(stage);
    for (const char* bytes : {"activation_bytes", "deferred_bytes"}) {
      ExpectWithinATenth(bytes, stage, costs.at(bytes), expected.at(bytes));
    }
    EXPECT_EQ(costs.at("boundary_bytes"),
              expected.at("boundary_bytes").get<std::int64_t>() + kRiderBytes);
    for (const char* bytes : {"parameter_bytes", "state_bytes"}) {
      EXPECT_EQ(costs.at(bytes), expected.at(bytes)) << bytes << " of stage " << stage;
    }
    // Workers of pipeline 0 come first, in the order of the stages.
    ExpectWithinATenth("peak", stage, profile.at("stages").at(stage).at("peak_bytes"),
                       predicted.at("workers").at(stage).at("activation_bytes"));
  }

  const std::string plan = (job.folder() / "plan.json").string();
  const std::string shape = fmt::format("--dp 2 --pp 3 --profile {}", profile_file);
  EXPECT_EQ(
      Recycle(fmt::format("plan {} --microbatches 4 --failed 1:1 --out {}", shape, plan)).code, 0);
  EXPECT_EQ(Recycle("check " + plan).code, 0);
  EXPECT_EQ(Recycle(fmt::format("simulate {} --microbatches 4 --mtbf-hours 100 --hours 24 --policy "
                                "recycle --json",
                                shape))
                .code,
            0);
}

}  // namespace
}  // namespace recycle::testing
