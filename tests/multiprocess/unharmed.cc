#include "unharmed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace recycle::testing {
namespace {

constexpr double kTolerance = 1e-5;

// The unharmed run of the same options, once per test binary.
struct Reference {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<int, std::vector<std::int64_t>> samples;
};

const Reference& ReferenceFor(const JobOptions& options) {
  static std::map<std::string, Reference> known;
  const std::string key =
      fmt::format("{}x{} M{} tied={} it={} clip={}", options.data, options.pipeline,
                  options.micro_batches, options.tied, options.iterations, options.clip);
  if (!known.contains(key)) {
    JobOptions unharmed = options;
    unharmed.inject.clear();
    unharmed.staggered = false;
    Job job(unharmed);
    EXPECT_EQ(job.Run(), 0) << job.Output();
    known[key] = {job.Losses(), job.GradientNorms(), job.SamplesPerIteration()};
  }
  return known[key];
}

}  // namespace

std::vector<Action> PartsOf(const Action& action) {
  if (action.kind != ActionKind::kBackward) return {action};
  Action input = action;
  Action weight = action;
  input.kind = ActionKind::kBackwardInput;
  weight.kind = ActionKind::kBackwardWeight;
  return {input, weight};
}

std::map<Work, std::vector<Execution>> Executions(const Job& job) {
  std::map<Work, std::vector<Execution>> executions;
  for (const nlohmann::json& event : job.TraceEvents()) {
    const nlohmann::json& args = event.at("args");
    const Action action = *ParseAction(args.at("action").get<std::string>());
    if (!HasMicroBatch(action.kind) || args.at("regenerated")) continue;
    const WorkerId worker{PipelineId(event.at("pid").get<int>()),
                          StageId(event.at("tid").get<int>())};
    for (const Action& part : PartsOf(action)) {
      executions[{args.at("iteration"), part}].push_back({worker, args.at("generation")});
    }
  }
  return executions;
}

std::set<WorkerId> LostWorkers(const Job& job) {
  std::set<WorkerId> lost;
  for (const nlohmann::json& event : job.Events("failure_detected")) {
    lost.insert(*ParseWorkerId(event.at("worker").get<std::string>()));
  }
  return lost;
}

namespace {

// recovery-rules.md, I4: an executed action runs again only if its executor is dead. And whatever
// ran again was announced.
void ExpectOnlyTheDeadsWorkRanAgain(const Job& job) {
  const std::set<WorkerId> lost = LostWorkers(job);
  int again = 0;
  for (const auto& [work, executions] : Executions(job)) {
    again += static_cast<int>(executions.size()) - 1;
    for (std::size_t i = 0; i + 1 < executions.size(); ++i) {
      EXPECT_TRUE(lost.contains(executions[i].worker))
          << work.part << " of iteration " << work.iteration << " by live " << executions[i].worker;
    }
  }
  int replayed = 0;
  for (const nlohmann::json& resumed : job.Events("resumed")) {
    replayed += resumed.at("replayed_actions").get<int>();
  }
  EXPECT_EQ(replayed, again);
}

}  // namespace

void ExpectUnharmedNumbers(const Job& job, const JobOptions& options) {
  const Reference& reference = ReferenceFor(options);
  EXPECT_EQ(Differs(job.Losses(), reference.losses, kTolerance), "");
  EXPECT_EQ(Differs(job.GradientNorms(), reference.norms, kTolerance), "");
  EXPECT_EQ(job.SamplesPerIteration(), reference.samples);
  for (const nlohmann::json& resumed : job.Events("resumed")) {
    EXPECT_EQ(resumed.at("lost_iterations"), 0) << resumed;
  }
  ExpectOnlyTheDeadsWorkRanAgain(job);
}

void ExpectUnharmedResults(const Job& job, const JobOptions& options, int lost_workers) {
  ExpectUnharmedNumbers(job, options);
  EXPECT_EQ(static_cast<int>(job.Events("failure_detected").size()), lost_workers);
  // A survivor is never started again: every place joined exactly once.
  EXPECT_EQ(job.Events("worker_joined").size(), job.WorkerPids().size());
}

}  // namespace recycle::testing
