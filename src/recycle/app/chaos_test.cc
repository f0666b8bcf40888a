// The pure parts of `recycle chaos`: sequences of faults, and the comparison with the unharmed run.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recycle/app/chaos_sequence.h"
#include "recycle/app/chaos_verdict.h"

namespace recycle {
namespace {

constexpr ChaosShape kShape{.data = 3, .pipeline = 2, .iterations = 60, .failure_timeout_s = 0.5};

std::vector<std::string> Texts(const std::vector<ChaosTrial>& trials) {
  std::vector<std::string> texts;
  for (const ChaosTrial& trial : trials) {
    for (const Fault& fault : trial.faults) texts.push_back(ToString(fault));
  }
  return texts;
}

TEST(ChaosSequence, IsAFunctionOfShapeAndSeed) {
  EXPECT_EQ(Texts(ChaosTrials(kShape, 17)), Texts(ChaosTrials(kShape, 17)));
  EXPECT_NE(Texts(ChaosTrials(kShape, 17)), Texts(ChaosTrials(kShape, 18)));
}

TEST(ChaosSequence, EveryFaultFitsTheJobAndReadsBack) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::set<std::string> seen;
    int last_iteration = 1;
    for (const ChaosTrial& trial : ChaosTrials(kShape, seed)) {
      for (const Fault& fault : trial.faults) {
        EXPECT_TRUE(CheckFault(fault, 3, 2, 1, 60).ok()) << "seed " << seed << ToString(fault);
        const StatusOr<Fault> again = ParseFault(ToString(fault));
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(*again, fault) << ToString(fault);
        EXPECT_TRUE(seen.insert(ToString(fault)).second) << "seed " << seed << ToString(fault);
        EXPECT_EQ(fault.iteration, trial.faults[0].iteration) << "two at once";
      }
      EXPECT_GT(*trial.faults[0].iteration, last_iteration) << "seed " << seed;
      last_iteration = *trial.faults[0].iteration;
    }
    EXPECT_LE(last_iteration, 56) << "whatever was hit has to show";
  }
}

TEST(ChaosSequence, EveryStageKeepsAWorkerThatNothingHarms) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::set<WorkerId> harmed;
    std::map<int, int> per_stage;
    for (const ChaosTrial& trial : ChaosTrials(kShape, seed)) {
      for (const Fault& fault : trial.faults) {
        if (fault.target.kind != TargetKind::kWorker) continue;
        EXPECT_FALSE(harmed.contains(fault.target.worker)) << ToString(fault);
        if (fault.what == FaultKind::kSlow) continue;
        harmed.insert(fault.target.worker);
        ++per_stage[fault.target.worker.stage.value()];
      }
    }
    for (const auto& [stage, count] : per_stage) EXPECT_LE(count, 2) << "seed " << seed;
  }
}

TEST(ChaosSequence, AllKindsComeUpAndAlsoTwoAtOnce) {
  std::map<FaultKind, int> kinds;
  int pairs = 0;
  int of_coordinator = 0;
  int of_store = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    for (const ChaosTrial& trial : ChaosTrials(kShape, seed)) {
      pairs += trial.faults.size() == 2 ? 1 : 0;
      for (const Fault& fault : trial.faults) {
        ++kinds[fault.what];
        of_coordinator += fault.target.kind == TargetKind::kCoordinator ? 1 : 0;
        of_store += fault.target.kind == TargetKind::kStore ? 1 : 0;
      }
    }
  }
  for (const FaultKind kind : {FaultKind::kKill, FaultKind::kStop, FaultKind::kSlow,
                               FaultKind::kDrop, FaultKind::kDiskFull}) {
    EXPECT_GE(kinds[kind], 10) << WhatText(kind);
  }
  EXPECT_GE(pairs, 10);
  EXPECT_GE(of_coordinator, 10);
  EXPECT_GE(of_store, 10);
}

// One pipeline, one stage: only what harms nobody.
TEST(ChaosSequence, AJobWithoutPeersIsNotHarmed) {
  const auto trials = ChaosTrials({.iterations = kChaosMinIterations}, 3);
  ASSERT_FALSE(trials.empty());
  for (const std::string& text : Texts(trials)) {
    EXPECT_TRUE(text.starts_with("slow") || text.starts_with("stop store") ||
                text.find("coordinator") != std::string::npos)
        << text;
  }
}

TEST(ChaosVerdict, NamesWhatDiffersFirst) {
  const ChaosEvidence reference{
      .losses = {{1, 2.0}, {2, 1.5}}, .samples = {{1, {3, 4}}, {2, {5}}}, .fired = {}};
  ChaosEvidence run = reference;
  run.losses[2] = 1.5 * (1 + 9e-6);
  EXPECT_TRUE(Differences(run, reference).empty()) << "another order of summation";
  run.losses[2] = 1.5 * (1 + 2e-5);
  run.samples[1] = {3, 3};
  EXPECT_EQ(Differences(run, reference),
            (std::vector<std::string>{"loss 1.50003 in iteration 2, not 1.5",
                                      "other samples count in iteration 1"}));
  run = reference;
  run.losses.erase(2);
  EXPECT_EQ(Differences(run, reference),
            (std::vector<std::string>{"1 iterations are recorded, not 2"}));
  run = reference;
  run.losses[1] = std::nan("");
  EXPECT_EQ(Differences(run, reference).size(), 1U) << "no number is no agreement";
}

}  // namespace
}  // namespace recycle
