// A live worker takes a vacant place of another stage while the job runs: one process, two places,
// losses compared with the unharmed run. Docs: docs/RECOVERY.md ("Role changes").
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>

#include "job.h"

namespace recycle::testing {
namespace {

constexpr double kTolerance = 1e-6;
constexpr std::chrono::seconds kLimit{300};
constexpr int kIterations = 100;

// Worker 0:0 waits fifty times as long as it works, so that iterations last without loading the
// machine. A place is deserted after 2 s.
JobOptions ThreeByThree() {
  return {.data = 3,
          .pipeline = 3,
          .micro_batches = 2,
          .iterations = kIterations,
          .dropout = 0.1,
          .failure_timeout_ms = 400,
          .inject = {"slow x50 0:0 at F of iteration 1"}};
}

std::string Field(const nlohmann::json& event, const std::string& key) {
  return event.at(key).get<std::string>();
}

TEST(RoleChange, AWorkerOfAFullStageTakesThePlaceThatNobodyComesBackFor) {
  JobOptions options = ThreeByThree();
  JobOptions unharmed = options;
  unharmed.inject.clear();
  Job reference(unharmed);
  ASSERT_EQ(reference.Run(), 0) << reference.Output();

  options.inject.emplace_back("kill 1:1 at F of iteration 4");
  options.inject.emplace_back("kill 2:1 at I of iteration 6");
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitEvents("role_change", 1)) << job.Output();
  const nlohmann::json change = job.Events("role_change").front();
  EXPECT_EQ(Field(change, "from"), "2:2");
  EXPECT_EQ(Field(change, "to"), "1:1");
  EXPECT_GT(change.at("gain_ms"), change.at("cost_ms"));
  const pid_t mover = job.WorkerPids().at("2:2");
  ASSERT_TRUE(job.AwaitEvents("rejoined", 1)) << job.Output();
  EXPECT_EQ(Field(job.Events("rejoined").front(), "worker"), "1:1");
  EXPECT_EQ(job.WorkerPids().at("1:1"), mover) << "the process is another place's now";

  // It counts as that place's: its death is known by waitpid, too.
  ASSERT_TRUE(job.AwaitIteration(static_cast<int>(job.Lines("metrics.jsonl").size()) + 5));
  ASSERT_EQ(kill(mover, SIGKILL), 0);
  ASSERT_TRUE(job.AwaitEvents("executor_exited", 3)) << job.Output();
  const nlohmann::json exited = job.Events("executor_exited").back();
  EXPECT_EQ(Field(exited, "worker"), "1:1");
  EXPECT_EQ(exited.at("pid"), mover);

  ASSERT_EQ(job.Wait(kLimit), 0) << job.Output();
  EXPECT_EQ(Differs(job.Losses(), reference.Losses(), kTolerance), "");
  EXPECT_EQ(job.SamplesPerIteration(), reference.SamplesPerIteration());
  const std::vector<nlohmann::json> generations = job.Events("generation");
  EXPECT_TRUE(std::any_of(generations.begin(), generations.end(), [](const auto& generation) {
    return Field(generation, "reason").starts_with("worker 2:2 leaves: it becomes worker 1:1: ");
  }));
  // It worked there.
  std::set<std::string> names;
  for (const nlohmann::json& action : job.TraceEvents()) {
    const bool is_place = action.at("pid") == 1 && action.at("tid") == 1;
    if (is_place && action.at("args").at("iteration") > 10) names.insert(Field(action, "cat"));
  }
  EXPECT_TRUE(names.contains("F") && names.contains("W")) << names.size();
}

}  // namespace
}  // namespace recycle::testing
