#include "recycle/plan/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "recycle/plan/test_plans.h"

namespace recycle {
namespace {

using testing::HasSubstr;

constexpr Ticks kUnit = kTicksPerUnit;

// ---- The oracle: eight unrolled iterations, relaxed in doubles until nothing changes ----

struct Figures {
  double makespan = 0;
  double eight_pass = 0;
  double low = 0;  // the bracket
  double high = 0;
};

class Oracle {
 public:
  static constexpr int kIterations = 8;

  explicit Oracle(const Plan& plan) : plan_(plan), stages_(plan.parallel.num_stages()) {}

  Figures Run() {
    step_end_.assign(kIterations + 1, std::vector<double>(static_cast<std::size_t>(stages_), 0));
    for (int t = 1; t <= kIterations; ++t) RelaxIteration(t);
    Figures figures;
    figures.makespan = Last(1);
    figures.eight_pass = (Last(8) - Last(4)) / 4;
    figures.low = -1e300;
    figures.high = 1e300;
    for (int t = 1; t <= kIterations; ++t) {
      double low = 1e300;
      double high = -1e300;
      for (std::size_t s = 0; s < step_end_[0].size(); ++s) {
        low = std::min(low, At(t)[s] - At(t - 1)[s]);
        high = std::max(high, At(t)[s] - At(t - 1)[s]);
      }
      figures.low = std::max(figures.low, low);
      figures.high = std::min(figures.high, high);
    }
    return figures;
  }

 private:
  using Key = std::tuple<int, int, MicroBatch>;  // kind (0 F, 1 I or B), stage, micro-batch

  std::vector<double>& At(int t) { return step_end_[static_cast<std::size_t>(t)]; }
  double Last(int t) { return *std::max_element(At(t).begin(), At(t).end()); }

  double Duration(WorkerId worker, const Action& action) const {
    const StageCosts& costs = plan_.costs.stages[static_cast<std::size_t>(action.stage.value())];
    double duration = 0;
    if (action.kind == ActionKind::kForward) duration = ToUnits(costs.forward);
    if (action.kind == ActionKind::kBackwardInput) duration = ToUnits(costs.backward_input);
    if (action.kind == ActionKind::kBackwardWeight) duration = ToUnits(costs.backward_weight);
    if (action.kind == ActionKind::kBackward) {
      duration = ToUnits(costs.backward_input + costs.backward_weight);
    }
    for (const SlowWorker& slow : plan_.slow) {
      if (slow.worker == worker) duration *= slow.factor;
    }
    return duration;
  }

  void RelaxIteration(int t) {
    std::map<Key, double> ends;
    bool changed = true;
    while (changed) changed = RelaxOnce(t, ends);
    clocks_ = next_clocks_;
    FinishSteps(t);
  }

  // One sweep over all workers; true if some end moved.
  bool RelaxOnce(int t, std::map<Key, double>& ends) {
    bool changed = false;
    work_end_.assign(static_cast<std::size_t>(stages_), 0);
    next_clocks_.assign(plan_.workers.size(), 0);
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
      double clock = t == 1 ? 0 : clocks_[w];
      for (const Action& action : plan_.workers[w].actions) {
        if (!HasMicroBatch(action.kind)) continue;
        const int s = action.stage.value();
        const auto stage = static_cast<std::size_t>(s);
        double start = clock;
        const bool forward = action.kind == ActionKind::kForward;
        const bool weight = action.kind == ActionKind::kBackwardWeight;
        if (forward) start = std::max(start, At(t - 1)[stage]);
        if (forward && s > 0) {
          start = std::max(start, ends[{0, s - 1, action.micro_batch}] +
                                      ToUnits(plan_.costs.send_forward[stage - 1]));
        }
        if (!forward && !weight && s + 1 < stages_) {
          start = std::max(start, ends[{1, s + 1, action.micro_batch}] +
                                      ToUnits(plan_.costs.send_backward[stage]));
        }
        clock = start + Duration(plan_.workers[w].worker, action);
        work_end_[stage] = std::max(work_end_[stage], clock);
        if (weight) continue;
        double& end = ends[{forward ? 0 : 1, s, action.micro_batch}];
        changed |= end != clock;
        end = clock;
      }
      next_clocks_[w] = clock;
    }
    return changed;
  }

  void FinishSteps(int t) {
    double slowest = 0;
    for (std::size_t s = 0; s < work_end_.size(); ++s) {
      slowest = std::max(slowest, work_end_[s] + ToUnits(plan_.costs.stages[s].all_reduce));
    }
    for (std::size_t s = 0; s < work_end_.size(); ++s) {
      const double reduced = plan_.options.staggered
                                 ? work_end_[s] + ToUnits(plan_.costs.stages[s].all_reduce)
                                 : slowest;
      At(t)[s] = reduced + ToUnits(plan_.costs.stages[s].optimizer);
    }
  }

  const Plan& plan_;
  const int stages_;
  std::vector<std::vector<double>> step_end_;
  std::vector<double> work_end_;
  std::vector<double> clocks_;
  std::vector<double> next_clocks_;
};

void ExpectAgreement(const Plan& plan, const Figures& expected, const PlanFigures& figures) {
  constexpr double kRelative = 1e-6;
  EXPECT_NEAR(ToUnits(figures.makespan), expected.makespan, kRelative * expected.makespan);
  const double period = ToUnits(figures.period);
  const bool closed = expected.high - expected.low < kRelative * expected.high;
  if (closed || plan.parallel.virtual_stages > 1) {
    EXPECT_NEAR(period, expected.eight_pass, kRelative * expected.eight_pass);
  } else {
    EXPECT_GE(period, expected.low * (1 - kRelative));
    EXPECT_LE(period, expected.high * (1 + kRelative));
  }
}

TEST(Timeline, AgreesWithAnUnrolledEvaluatorInDoubles) {
  constexpr std::uint64_t kSeed = 5;
  Prng prng(kSeed);
  int certified = 0;
  constexpr int kPlans = 300;
  for (int i = 0; i < kPlans; ++i) {
    const Plan plan = RandomPlan(prng, {});
    const StatusOr<PlanFigures> figures = ComputeFigures(plan);
    ASSERT_TRUE(figures.ok()) << figures.status();
    SCOPED_TRACE(testing::Message() << "plan " << i << " of seed " << kSeed);
    ExpectAgreement(plan, Oracle(plan).Run(), *figures);
    certified += figures->certified ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_EQ(certified, kPlans) << "seed " << kSeed;
}

TEST(Timeline, AgreesForWorkersWithSeveralStages) {
  constexpr std::uint64_t kSeed = 6;
  Prng prng(kSeed);
  for (int i = 0; i < 200; ++i) {
    const Plan plan = RandomPlan(prng, {.data = 3, .pipeline = 4, .virtual_stages = true});
    SCOPED_TRACE(testing::Message() << "plan " << i << " of seed " << kSeed);
    ExpectAgreement(plan, Oracle(plan).Run(), ComputeFigures(plan).value());
    if (HasFailure()) return;
  }
}

// ---- Closed forms ----

TEST(Timeline, GPipeAndOneFOneBTakeThreeTimesMPlusPMinusOne) {
  for (const int stages : {1, 2, 4, 7}) {
    for (const int micro_batches : {1, 3, 8}) {
      for (const Plan& plan :
           {GPipePlan(2, stages, micro_batches), OneFOneBPlan(3, stages, micro_batches)}) {
        const PlanFigures figures = ComputeFigures(plan).value();
        const Ticks expected = 3 * (micro_batches + stages - 1) * kUnit;
        EXPECT_EQ(figures.makespan, expected) << stages << " stages, M " << micro_batches;
        EXPECT_EQ(figures.period, expected);
        EXPECT_TRUE(figures.certified);
      }
    }
  }
}

TEST(Timeline, OneFOneBWithRealCostsIsTheBaselineOfTheTables) {
  for (const auto& [micro_batches, expected] : {std::pair(32, 140.7), std::pair(64, 236.5)}) {
    Plan plan = OneFOneBPlan(1, 16, micro_batches);
    for (StageCosts& stage : plan.costs.stages) {
      stage.backward_input = kUnit * 105 / 100;
      stage.backward_weight = kUnit * 85 / 100;
    }
    plan.costs.send_forward.assign(15, kUnit / 20);
    plan.costs.send_backward.assign(15, kUnit / 20);
    EXPECT_NEAR(ToUnits(ComputeFigures(plan).value().period), expected, 0.05);
  }
}

TEST(Timeline, StaggeredStagesWaitForTheirOwnStepOnly) {
  Plan plan = OneFOneBPlan(1, 4, 6);
  plan.options.staggered = true;
  const PlanFigures staggered = ComputeFigures(plan).value();
  // Coupled 1F1B leaves no room: stage 0 is busy from the first F to the last B of all.
  EXPECT_EQ(staggered.makespan, 27 * kUnit);
  EXPECT_EQ(staggered.period, 27 * kUnit);
  for (auto& [worker, actions] : plan.workers) {
    if (worker.stage == StageId(0)) continue;
    // Later stages end earlier; a slow optimizer there fits into that time when steps are
    // staggered.
    plan.costs.stages[static_cast<std::size_t>(worker.stage.value())].optimizer = 2 * kUnit;
  }
  EXPECT_EQ(ComputeFigures(plan).value().period, 27 * kUnit);
  plan.options.staggered = false;
  // The slowest optimizer hides behind one F of stage 0 at best.
  EXPECT_EQ(ComputeFigures(plan).value().period, 28 * kUnit);
}

TEST(Timeline, SynchronousPeriodIsNotTheMakespanWhenOptimizersDiffer) {
  Plan plan = GPipePlan(1, 2, 1);  // F F B B: 6 units
  plan.costs.stages[1].optimizer = 5 * kUnit;
  const PlanFigures figures = ComputeFigures(plan).value();
  EXPECT_EQ(figures.makespan, 11 * kUnit);
  EXPECT_EQ(figures.period,
            10 * kUnit);  // the next F of stage 0 overlaps one unit of that optimizer
}

TEST(Timeline, AWorkerMayComputeOneStageWhileTheOtherSteps) {
  Plan plan;  // planner.md: 1 worker, two stages, M 1, all durations 1, optimizer 10: 15, not 16
  plan.parallel = {1, 1, 1, 2, Placement::kInterleaved};
  plan.costs = UnitCosts(2);
  for (StageCosts& stage : plan.costs.stages) stage.optimizer = 10 * kUnit;
  plan.workers = {{{}, ParseActions("0F0.0 1F0.0 1I0.0 0I0.0 0W0.0 1W0.0").value()}};
  AddStepActions(plan);
  EXPECT_EQ(ComputeFigures(plan).value().period, 15 * kUnit);
}

TEST(Timeline, GivesStartsAndEndsInTheOrderOfThePlan) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.costs.send_forward = {kUnit / 2};
  plan.slow = {{{PipelineId(0), StageId(1)}, 2.0}};
  const Timeline timeline = ComputeTimeline(plan).value();
  std::vector<std::tuple<std::string, Ticks, Ticks>> stage_one;
  for (const TimedAction& timed : timeline.workers[1]) {
    stage_one.emplace_back(ToString(timed.action), timed.start, timed.end);
  }
  EXPECT_THAT(stage_one, testing::ElementsAre(std::tuple("1F0.0", kUnit * 3 / 2, kUnit * 7 / 2),
                                              std::tuple("1F0.1", kUnit * 7 / 2, kUnit * 11 / 2),
                                              std::tuple("1B0.0", kUnit * 11 / 2, kUnit * 19 / 2),
                                              std::tuple("1B0.1", kUnit * 19 / 2, kUnit * 27 / 2)));
  EXPECT_EQ(timeline.makespan, kUnit * 31 / 2);
  EXPECT_EQ(timeline.step_end[1], kUnit * 31 / 2);  // synchronous: with the slowest
}

TEST(Timeline, StragglersAreRoundedOncePerAction) {
  Plan plan = GPipePlan(1, 1, 3);
  plan.costs.stages[0].forward = 3;  // ticks
  plan.slow = {{{PipelineId(0), StageId(0)}, 1.5}};
  const Timeline timeline = ComputeTimeline(plan).value();
  EXPECT_EQ(timeline.workers[0][2].end, 3 * 5);  // round(4.5), three times
}

// ---- Plans for the rest of an iteration ----

TEST(Timeline, WhatIsDoneTakesNoTime) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.initial = {{{PipelineId(0), StageId(0)}, 3, ParseActions("0F0.0 0F0.1").value()},
                  {{PipelineId(0), StageId(1)}, 3, ParseActions("1F0.0").value()}};
  plan.workers[0].actions = ParseActions("0B0.0 0B0.1").value();
  plan.workers[1].actions = ParseActions("1F0.1 1B0.0 1B0.1").value();
  const Timeline timeline = ComputeTimeline(plan).value();
  EXPECT_EQ(timeline.workers[1][0].start, 0);
  EXPECT_EQ(timeline.workers[0][0].start, 3 * kUnit);
  EXPECT_EQ(timeline.makespan, 7 * kUnit);
  EXPECT_EQ(timeline.period, timeline.makespan);
}

TEST(Timeline, CommittedStagesRegenerateOnlyWhatTheyMust) {
  Plan plan = GPipePlan(1, 3, 2);
  plan.committed = {StageId(1)};
  plan.initial = {
      {{PipelineId(0), StageId(1)}, 3, ParseActions("1F0.0 1F0.1 1B0.0 1B0.1").value()}};
  plan.workers[0].actions = ParseActions("0F0.0 0F0.1 0B0.0 0B0.1").value();
  plan.workers[1].actions = ParseActions("1I0.0").value();  // 0.1's gradient is still in a log
  plan.workers[2].actions = ParseActions("2F0.0 2F0.1 2B0.0 2B0.1").value();
  const Timeline timeline = ComputeTimeline(plan).value();
  EXPECT_EQ(timeline.workers[2][0].start, 0);          // its input is in a log
  EXPECT_EQ(timeline.workers[1][0].start, 4 * kUnit);  // after 2B0.0
  EXPECT_EQ(timeline.workers[0][2].start, 5 * kUnit);
  EXPECT_EQ(timeline.workers[0][3].start, 7 * kUnit);
}

// ---- Errors ----

TEST(Timeline, ADeadlockNamesTheActionsThatBlockOneAnother) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.workers[0].actions = ParseActions("0F0.0 0B0.0 0F0.1 0B0.1").value();
  plan.workers[1].actions = ParseActions("1F0.1 1F0.0 1B0.0 1B0.1").value();
  const Status status = ComputeFigures(plan).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0B0.0"));
}

TEST(Timeline, MissingInputsAndForeignActionsAreInvalid) {
  const auto code_with = [](const char* first, const char* second) {
    Plan plan = GPipePlan(1, 2, 1);
    plan.workers[0].actions = ParseActions(first).value();
    plan.workers[1].actions = ParseActions(second).value();
    return ComputeFigures(plan).status().code();
  };
  EXPECT_EQ(code_with("0F0.0 0B0.0", "1F0.0 1B0.0"), StatusCode::kOk);
  EXPECT_EQ(code_with("", "1F0.0 1B0.0"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_with("0F0.0 0B0.0", "1F0.0"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_with("0F0.0 0B0.0", "1F0.0 1B0.0 1F0.0"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_with("0F0.0 0B0.0 1F0.0", "1B0.0"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_with("0F0.0 0W0.0", "1F0.0 1B0.0"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_with("0F0.0 0B0.0", "1B0.0 1F0.0"), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code_with("0F0.0 0B0.0 0F0.7", "1F0.0 1B0.0"), StatusCode::kInvalidArgument);
}

TEST(Timeline, DurationsThatCouldOverflowAreRefused) {
  Plan plan = GPipePlan(2, 2, 4);
  for (StageCosts& stage : plan.costs.stages) stage.forward = 9'000'000 * kUnit;
  EXPECT_TRUE(ComputeFigures(plan).ok());
  plan.slow = {{{PipelineId(1), StageId(0)}, 1e6}};
  EXPECT_THAT(std::string(ComputeFigures(plan).status().message()), HasSubstr("larger unit"));
}

}  // namespace
}  // namespace recycle
