// Cases of PlanResume that the model of testing/model does not reach: ledgers that cannot be, the
// validation pass, who gets what, and how long it takes.
#include "recycle/coordinator/plan_resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "recycle/coordinator/testing_plan.h"
#include "recycle/plan/validate.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;

WorkerId At(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }
MicroBatch Batch(int home, int index) { return {PipelineId(home), index}; }

class PlanResumeTest : public ::testing::Test {
 protected:
  PlanResumeTest() { Shape(2, 2, 2, {}); }

  void Shape(int data, int pipeline, int micro_batches, const std::vector<WorkerId>& failed) {
    plan_ =
        PlanMaker({.data = data, .pipeline = pipeline}, micro_batches)({.failed = failed}).value();
    ledgers_.clear();
    for (const WorkerSchedule& schedule : plan_.workers) ledgers_[schedule.worker];
  }

  IterationLedger& Of(WorkerId worker, int iteration) {
    IterationLedger& entry = ledgers_[worker].iterations.emplace_back();
    entry.iteration = iteration;
    return entry;
  }

  StatusOr<ResumeDecision> Decide() {
    return PlanResume({.plan = plan_, .ledgers = ledgers_, .iterations = 10}, OrderByMicroBatch);
  }
  void ExpectRefusal(StatusCode code, const std::string& text) {
    const Status refusal = Decide().status();
    EXPECT_EQ(refusal.code(), code) << refusal;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr(text));
  }

  Plan plan_;
  std::map<WorkerId, Ledger> ledgers_;
};

TEST_F(PlanResumeTest, WhatNobodyHasBegunIsNotOpen) {
  Of(At(0, 1), 0).inbox = {{BoundaryKind::kActivation, StageId(1), Batch(0, 0)}};
  const ResumeDecision decision = Decide().value();
  EXPECT_TRUE(decision.open.empty());
  EXPECT_EQ(decision.next_iteration, 0);
  EXPECT_FALSE(decision.repeat_validation);
}

TEST_F(PlanResumeTest, AfterTheLastIterationNothingIsLeft) {
  for (auto& [worker, ledger] : ledgers_) ledger.version = 10;
  const ResumeDecision decision = Decide().value();
  EXPECT_TRUE(decision.open.empty());
  EXPECT_EQ(decision.next_iteration, 10);
}

TEST_F(PlanResumeTest, TheValidationPassIsRepeatedUntilNobodyOwesIt) {
  for (auto& [worker, ledger] : ledgers_) ledger.version = 4;
  EXPECT_FALSE(Decide()->repeat_validation);
  ledgers_[At(1, 0)].owes_validation = true;
  EXPECT_TRUE(Decide()->repeat_validation);
  ledgers_[At(1, 0)].owes_validation = false;
  ledgers_[At(1, 1)].version = 3;  // it will owe it once it has stepped
  Of(At(1, 1), 3).holds_stage_part = true;
  EXPECT_TRUE(Decide()->repeat_validation);
}

TEST_F(PlanResumeTest, LedgersThatContradictEachOtherAreRefused) {
  Of(At(0, 1), 0).progress[Batch(1, 0)] = Progress::kForward;
  Of(At(1, 1), 0).progress[Batch(1, 0)] = Progress::kForward;
  ExpectRefusal(StatusCode::kFailedPrecondition, "workers 0:1 and 1:1 have both begun");
  Shape(2, 2, 2, {});
  Of(At(0, 0), 0).progress[Batch(0, 2)] = Progress::kForward;
  ExpectRefusal(StatusCode::kFailedPrecondition, "worker 0:0 names micro-batch 0.2");
  Shape(2, 2, 2, {});
  Of(At(0, 0), 0).progress[Batch(0, 0)] = Progress::kForward;  // and its log is empty
  ExpectRefusal(StatusCode::kFailedPrecondition, "worker 0:0 has run micro-batch 0.0");
  Shape(2, 2, 2, {});
  ledgers_[At(0, 0)].version = 11;
  ExpectRefusal(StatusCode::kFailedPrecondition, "has made 11 steps");
}

// Stage 0 of iteration 4 is committed by those who stepped it, and its activations are needed
// again: without the bits of that version nobody can make them.
TEST_F(PlanResumeTest, ALostVersionIsALostStage) {
  plan_.options.staggered = true;
  for (auto& [worker, ledger] : ledgers_) ledger.version = worker.stage.value() == 0 ? 5 : 4;
  ExpectRefusal(StatusCode::kDataLoss, "no live worker of stage 0");
  ledgers_[At(1, 0)].undo = {4};
  const ResumeDecision decision = Decide().value();
  EXPECT_EQ(decision.regenerated_actions, 4) << "the four activations";
}

// A correction voids what its next iteration has, at whoever has not applied it: also at those who
// lack the step, and not at those who have begun anew since.
TEST_F(PlanResumeTest, ACorrectionVoidsWhatIsNotOfTheRightStep) {
  plan_.options.staggered = true;
  const Verdict correction{.iteration = 4, .squared_norm = 4, .stop = false, .corrects = true};
  for (auto& [worker, ledger] : ledgers_) ledger.version = 5;
  ledgers_[At(0, 0)].verdicts = {correction};  // applied, and begun again
  IterationLedger& begun = Of(At(0, 0), 5);
  begun.progress[Batch(0, 0)] = Progress::kForward;
  begun.log = {{BoundaryKind::kActivation, StageId(1), Batch(0, 0)}};
  ledgers_[At(1, 0)].validated = false;
  Of(At(1, 0), 5).progress[Batch(0, 1)] = Progress::kForward;
  ledgers_[At(0, 1)].version = 4;
  Of(At(0, 1), 4).holds_stage_part = true;
  Of(At(0, 1), 5).inbox = {{BoundaryKind::kActivation, StageId(1), Batch(0, 1)}};
  const ResumeDecision decision = Decide().value();
  EXPECT_EQ(decision.verdicts, std::vector<Verdict>{correction});
  ASSERT_EQ(decision.rollbacks.size(), 1U);
  EXPECT_EQ(decision.rollbacks[0].stage, StageId(0));
  ASSERT_EQ(decision.open.size(), 2U);
  const Plan& rest = *decision.open[1].rest;
  for (const InitialState& state : rest.initial) {
    EXPECT_EQ(state.done.size(), state.worker == At(0, 0) ? 1U : 0U) << state.worker;
  }
  EXPECT_EQ(Assignment(rest).WorkerOf(StageId(1), Batch(0, 1)).has_value(), true);
}

// 1:1 has a gradient of iteration 4 that does not fit, when stage 0 has stepped it already. Stage 1
// does all of its own again, out of stage 0's logs; nobody else repeats anything.
TEST_F(PlanResumeTest, AStageWhoseSumsHaveBeenOutgrownDoesTheIterationAgain) {
  plan_.options.staggered = true;
  const Quantum coarser{.stage = StageId(1), .iteration = 4, .exponent = -20};
  for (auto& [worker, ledger] : ledgers_) {
    ledger.version = worker.stage.value() == 0 ? 5 : 4;
    IterationLedger& done = Of(worker, 4);
    for (int index = 0; index < 2; ++index) {
      const MicroBatch b{worker.pipeline, index};
      if (worker.stage.value() == 0) {
        done.log.push_back({BoundaryKind::kActivation, StageId(1), b});
      } else {
        done.progress[b] = Progress::kWeight;
        done.log.push_back({BoundaryKind::kGradient, StageId(0), b});
      }
    }
  }
  ledgers_[At(1, 1)].outgrown = coarser;
  ledgers_[At(0, 1)].quanta = {{.stage = StageId(1), .iteration = 4, .exponent = -25}};
  ResumeDecision decision = Decide().value();
  EXPECT_EQ(decision.quanta, std::vector<Quantum>{coarser});
  EXPECT_EQ(decision.redone, std::vector<Quantum>{coarser});
  EXPECT_EQ(decision.regenerated_actions, 0);
  ASSERT_EQ(decision.open.size(), 1U);
  EXPECT_EQ(decision.open[0].resends.size(), 4U);
  for (const WorkerSchedule& schedule : decision.open[0].rest->workers) {
    EXPECT_EQ(std::count_if(schedule.actions.begin(), schedule.actions.end(),
                            [](const Action& action) { return HasMicroBatch(action.kind); }) > 0,
              schedule.worker.stage.value() == 1)
        << schedule.worker;
  }
  // Both have heard it: what they have counts.
  ledgers_[At(1, 1)].outgrown.reset();
  for (const WorkerId worker : {At(0, 1), At(1, 1)}) ledgers_[worker].quanta = {coarser};
  decision = Decide().value();
  EXPECT_EQ(decision.quanta, std::vector<Quantum>{coarser});
  EXPECT_TRUE(decision.redone.empty());
  EXPECT_TRUE(decision.open[0].resends.empty());
}

TEST_F(PlanResumeTest, TheRestGoesToWhoeverHasLeastToDo) {
  Shape(3, 1, 2, {At(2, 0)});
  plan_.costs.stages[0].forward = plan_.costs.stages[0].backward_input = kTicksPerUnit;
  plan_.costs.stages[0].backward_weight = kTicksPerUnit;
  IterationLedger& busy = Of(At(0, 0), 0);
  busy.progress = {{Batch(0, 0), Progress::kForward}, {Batch(0, 1), Progress::kForward}};
  Of(At(1, 0), 0).progress = {{Batch(1, 0), Progress::kWeight}, {Batch(1, 1), Progress::kWeight}};
  const ResumeDecision decision = Decide().value();
  const Assignment assignment(*decision.open.front().rest);
  EXPECT_EQ(assignment.WorkerOf(StageId(0), Batch(2, 0)), At(1, 0));
  EXPECT_EQ(assignment.WorkerOf(StageId(0), Batch(2, 1)), At(1, 0));
}

TEST_F(PlanResumeTest, Of64Times16TakesMilliseconds) {
  constexpr int kData = 64, kPipeline = 16, kMicroBatches = 16;
  Shape(kData, kPipeline, kMicroBatches, {At(1, 3), At(1, 4)});
  for (auto& [worker, ledger] : ledgers_) {
    IterationLedger& entry = ledger.iterations.emplace_back();
    const int stage = worker.stage.value();
    for (int index = 0; index < kMicroBatches / 2; ++index) {
      const MicroBatch b{worker.pipeline, index};
      entry.progress[b] = Progress::kWeight;
      if (stage + 1 < kPipeline) {
        entry.log.push_back({BoundaryKind::kActivation, StageId(stage + 1), b});
      }
      if (stage > 0) entry.log.push_back({BoundaryKind::kGradient, StageId(stage - 1), b});
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const StatusOr<ResumeDecision> decision = Decide();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_TRUE(Validate(*decision->open.front().rest).ok());
  std::printf("64 x 16, 16 micro-batches per pipeline: %.1f ms\n", took.count());
  EXPECT_LT(took.count(), 1000);
}

}  // namespace
}  // namespace recycle
