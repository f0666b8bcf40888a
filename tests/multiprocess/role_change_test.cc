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
constexpr std::chrono::seconds kLimit{120};

// More iterations than it lives to see. A place is deserted after 2 s.
JobOptions ThreeByThree() {
  return {.data = 3,
          .pipeline = 3,
          .micro_batches = 2,
          .iterations = 5000,
          .dropout = 0.1,
          .failure_timeout_ms = 400};
}

// Lets the job do `iterations`, and stops it.
void StopAfter(Job& job, int iterations) {
  EXPECT_TRUE(job.AwaitIteration(iterations)) << job.Output();
  kill(job.pid(), SIGTERM);
  const int code = job.Wait(kLimit);
  EXPECT_TRUE(code == 0 || code == 128 + SIGTERM) << code << job.Output();
}

std::string Field(const nlohmann::json& event, const std::string& key) {
  return event.at(key).get<std::string>();
}

TEST(RoleChange, AWorkerOfAFullStageTakesThePlaceThatNobodyComesBackFor) {
  JobOptions options = ThreeByThree();
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
  const auto done = [&job] { return static_cast<int>(job.Lines("metrics.jsonl").size()); };
  ASSERT_TRUE(job.AwaitIteration(done() + 5)) << job.Output();
  ASSERT_EQ(kill(mover, SIGKILL), 0);
  const auto is_movers = [mover](const nlohmann::json& exit) { return exit.at("pid") == mover; };
  const bool exited = Eventually(kLimit, [&] {
    const std::vector<nlohmann::json> exits = job.Events("executor_exited");
    const auto exit = std::find_if(exits.begin(), exits.end(), is_movers);
    return exit != exits.end() && Field(*exit, "worker") == "1:1";
  });
  EXPECT_TRUE(exited) << job.Output();
  StopAfter(job, done() + 5);

  Job reference(ThreeByThree());
  reference.Start();
  StopAfter(reference, done());
  const auto common =
      static_cast<std::size_t>(std::min(job.Losses().size(), reference.Losses().size()));
  const auto losses = [common](const Job& of) {
    std::vector<double> first = of.Losses();
    first.resize(common);
    return first;
  };
  EXPECT_EQ(Differs(losses(job), losses(reference), kTolerance), "");
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
