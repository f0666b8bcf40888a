#include "recycle/plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "recycle/plan/test_plans.h"
#include "recycle/plan/timeline.h"

namespace recycle {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::set<int> RulesBroken(const Plan& plan) {
  std::set<int> rules;
  for (const Violation& violation : FindViolations(plan)) rules.insert(violation.rule);
  return rules;
}

std::string FirstMessage(const Plan& plan) {
  const std::vector<Violation> violations = FindViolations(plan);
  return violations.empty() ? "" : violations[0].message;
}

std::size_t Pick(Prng& prng, std::size_t size) {
  return static_cast<std::size_t>(prng.Below(size));
}

// A random worker that has actions with a micro-batch, and the position of one of them.
std::pair<WorkerSchedule*, std::size_t> PickAction(Prng& prng, Plan& plan) {
  while (true) {
    WorkerSchedule& entry = plan.workers[Pick(prng, plan.workers.size())];
    const std::size_t position = Pick(prng, entry.actions.size());
    if (HasMicroBatch(entry.actions[position].kind)) return {&entry, position};
  }
}

TEST(Validate, AcceptsEveryRandomLegalPlan) {
  Prng prng(21);
  for (int i = 0; i < 300; ++i) {
    const Plan plan = RandomPlan(prng, {.virtual_stages = i % 3 == 0});
    ASSERT_THAT(FirstMessage(plan), "") << "plan " << i << " of seed 21";
    ASSERT_TRUE(Validate(plan).ok());
  }
}

// ---- Mutations: each breaks one rule of a legal plan; false if it does not apply to the plan ----

std::ptrdiff_t At(std::size_t position) { return static_cast<std::ptrdiff_t>(position); }

bool RemoveAction(Prng& prng, Plan& plan) {
  const auto [entry, position] = PickAction(prng, plan);
  entry->actions.erase(entry->actions.begin() + At(position));
  return true;
}

bool RunActionTwice(Prng& prng, Plan& plan) {
  const auto [entry, position] = PickAction(prng, plan);
  const Action action = entry->actions[position];
  entry->actions.insert(entry->actions.begin() + At(position) + 1, action);
  return true;
}

bool MoveActionToPeer(Prng& prng, Plan& plan) {
  const auto [entry, position] = PickAction(prng, plan);
  for (WorkerSchedule& peer : plan.workers) {
    if (&peer == entry || peer.worker.stage != entry->worker.stage) continue;
    peer.actions.insert(peer.actions.begin(), entry->actions[position]);
    entry->actions.erase(entry->actions.begin() + At(position));
    return true;
  }
  return false;
}

bool PutBackwardBeforeForward(Prng& prng, Plan& plan) {
  const auto [entry, position] = PickAction(prng, plan);
  if (entry->actions[position].kind == ActionKind::kForward) return false;
  std::rotate(entry->actions.begin(), entry->actions.begin() + At(position),
              entry->actions.begin() + At(position) + 1);
  return true;
}

bool ReduceBeforeTheLastWeight(Prng& prng, Plan& plan) {
  std::vector<Action>& actions = PickAction(prng, plan).first->actions;
  const auto reduce = std::find_if(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind == ActionKind::kReduceGrad;
  });
  std::rotate(actions.begin(), reduce, reduce + 1);
  return true;
}

bool ForgetStep(Prng& prng, Plan& plan) {
  PickAction(prng, plan).first->actions.pop_back();
  return true;
}

bool NameForeignStage(Prng& prng, Plan& plan) {
  if (plan.parallel.pipeline == 1) return false;
  const auto [entry, position] = PickAction(prng, plan);
  Action& action = entry->actions[position];
  action.stage = StageId((action.stage.value() + 1) % plan.parallel.pipeline);
  return true;
}

bool NameMissingMicroBatch(Prng& prng, Plan& plan) {
  const auto [entry, position] = PickAction(prng, plan);
  entry->actions[position].micro_batch.index = plan.micro_batches;
  return true;
}

bool ListLiveWorkerAsFailed(Prng& prng, Plan& plan) {
  plan.failed.push_back(plan.workers[Pick(prng, plan.workers.size())].worker);
  std::sort(plan.failed.begin(), plan.failed.end());
  return true;
}

bool LeaveOutWorker(Prng& prng, Plan& plan) {
  plan.workers.erase(plan.workers.begin() + At(Pick(prng, plan.workers.size())));
  return true;
}

bool SayCoupled(Prng& /*prng*/, Plan& plan) {
  const bool applies = plan.options.decoupled;
  plan.options.decoupled = false;
  return applies;
}

bool TakeAByteOfMemory(Prng& /*prng*/, Plan& plan) {
  const std::vector<double> peaks = PeakMemory(plan);
  const auto peak = std::max_element(peaks.begin(), peaks.end());
  if (*peak < 1) return false;
  const WorkerId worker = plan.workers[static_cast<std::size_t>(peak - peaks.begin())].worker;
  plan.costs.stages[static_cast<std::size_t>(worker.stage.value())].capacity_bytes = *peak - 1;
  return true;
}

struct Mutation {
  const char* name;
  int rule;
  bool (*apply)(Prng&, Plan&);
};

TEST(Validate, NoticesEveryMutationOfLegalPlans) {
  constexpr Mutation kMutations[] = {
      {"remove an action", 1, RemoveAction},
      {"run an action twice", 1, RunActionTwice},
      {"move an action to a peer", 1, MoveActionToPeer},
      {"put a backward before its forward", 2, PutBackwardBeforeForward},
      {"reduce before the last W", 2, ReduceBeforeTheLastWeight},
      {"forget a step", 1, ForgetStep},
      {"name a stage of another worker", 1, NameForeignStage},
      {"name a micro-batch that does not exist", 0, NameMissingMicroBatch},
      {"list a live worker as failed", 0, ListLiveWorkerAsFailed},
      {"leave out a worker", 0, LeaveOutWorker},
      {"use I and W in a coupled plan", 0, SayCoupled},
      {"one byte too little memory", 4, TakeAByteOfMemory},
  };
  Prng prng(22);
  for (const Mutation& mutation : kMutations) {
    int applied = 0;
    for (int i = 0; i < 60; ++i) {
      Plan plan = RandomPlan(prng, {});
      if (!mutation.apply(prng, plan)) continue;
      ++applied;
      ASSERT_THAT(RulesBroken(plan), testing::Contains(mutation.rule))
          << mutation.name << ", plan " << i << " of seed 22: " << FirstMessage(plan);
      ASSERT_EQ(Validate(plan).code(), StatusCode::kFailedPrecondition);
    }
    EXPECT_GT(applied, 10) << mutation.name;
  }
}

// Validator and timeline judge deadlock apart from one another; they must agree on any order that
// keeps rules 1 and 2.
TEST(Validate, AgreesWithTheTimelineOnDeadlockOfShuffledOrders) {
  Prng prng(23);
  int deadlocks = 0;
  int fine = 0;
  for (int i = 0; i < 2000; ++i) {
    Plan plan = RandomPlan(prng, {.data = 3, .pipeline = 4, .micro_batches = 3});
    for (int swaps = 0; swaps < 3; ++swaps) {
      const auto [entry, position] = PickAction(prng, plan);
      if (position == 0) continue;
      std::swap(entry->actions[position - 1], entry->actions[position]);
    }
    const std::set<int> rules = RulesBroken(plan);
    if (rules.count(1) + rules.count(2) > 0) continue;
    const StatusCode code = ComputeFigures(plan).status().code();
    ASSERT_EQ(rules.count(3) == 1, code == StatusCode::kFailedPrecondition)
        << "plan " << i << " of seed 23";
    (rules.count(3) == 1 ? deadlocks : fine) += 1;
  }
  EXPECT_GT(deadlocks, 20);
  EXPECT_GT(fine, 20);
}

TEST(Validate, ADeadlockShowsItsCycle) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.workers[0].actions = ParseActions("0F0.0 0B0.0 0F0.1 0B0.1").value();
  plan.workers[1].actions = ParseActions("1F0.1 1F0.0 1B0.0 1B0.1").value();
  AddStepActions(plan);
  const std::vector<Violation> violations = FindViolations(plan);
  ASSERT_EQ(violations.size(), 2U);
  EXPECT_EQ(violations[0].message,
            "deadlock of 2 worker(s): worker 0:0 stands at 0B0.0 and waits for worker 0:1");
  EXPECT_EQ(violations[0].position, 1U);
  EXPECT_EQ(violations[1].message,
            "deadlock of 2 worker(s): worker 0:1 stands at 1F0.1 and waits for worker 0:0");
}

TEST(Validate, BarriersOfStepsCanDeadlockToo) {
  Plan plan;  // one worker, two stages: a synchronous VALIDATE waits for every stage's sum
  plan.parallel = {1, 1, 1, 2, Placement::kInterleaved};
  plan.options.staggered = false;
  plan.costs = UnitCosts(2);
  const std::string work = "0F0.0 1F0.0 1I0.0 1W0.0 0I0.0 0W0.0 ";
  const auto with = [&](const char* steps) {
    plan.workers = {{{}, ParseActions(work + steps).value()}};
    return RulesBroken(plan);
  };
  EXPECT_THAT(with("0REDUCE_GRAD 1REDUCE_GRAD 0VALIDATE 0STEP 1VALIDATE 1STEP"), IsEmpty());
  EXPECT_EQ(with("0REDUCE_GRAD 0VALIDATE 0STEP 1REDUCE_GRAD 1VALIDATE 1STEP"), std::set<int>{3});
}

TEST(Validate, MemoryCountsAllStagesOfAWorkerAgainstItsLowestStage) {
  Plan plan;
  plan.parallel = {1, 1, 1, 2, Placement::kV};
  plan.costs = UnitCosts(2);
  plan.costs.stages[0].activation_bytes = 0.7;
  plan.costs.stages[0].deferred_bytes = 0.1;
  plan.micro_batches = 2;
  plan.workers = {
      {{},
       ParseActions("0F0.0 1F0.0 1I0.0 1W0.0 0I0.0 0F0.1 1F0.1 1I0.1 1W0.1 0I0.1 0W0.0 0W0.1")
           .value()}};
  AddStepActions(plan);
  EXPECT_DOUBLE_EQ(PeakMemory(plan)[0], 0.1 + 0.7 + 1);
  plan.costs.stages[0].capacity_bytes = 1.8;
  EXPECT_THAT(FirstMessage(plan), "");
  plan.costs.stages[0].capacity_bytes = 1.7;
  EXPECT_THAT(FirstMessage(plan),
              HasSubstr("1F0.1 brings its memory to 1.8, above capacity_bytes 1.7"));
}

TEST(Validate, TheRestOfAnIterationIsJudgedTogetherWithWhatIsDone) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.initial = {{{PipelineId(0), StageId(0)}, 3, ParseActions("0F0.0 0F0.1").value()},
                  {{PipelineId(0), StageId(1)}, 3, ParseActions("1F0.0").value()}};
  plan.workers[0].actions = ParseActions("0B0.0 0B0.1").value();
  plan.workers[1].actions = ParseActions("1F0.1 1B0.0 1B0.1").value();
  AddStepActions(plan);
  EXPECT_THAT(FirstMessage(plan), "");
  EXPECT_EQ(PeakMemory(plan), (std::vector<double>{2, 2}));
  Plan repeated = plan;
  repeated.workers[1].actions.insert(repeated.workers[1].actions.begin(), plan.initial[1].done[0]);
  EXPECT_EQ(RulesBroken(repeated), std::set<int>{1});
  Plan forgotten = plan;
  forgotten.initial[0].done.pop_back();
  EXPECT_THAT(RulesBroken(forgotten), testing::Contains(2));
}

TEST(Validate, CommittedStagesMayMissMicroBatchesAndRegenerateForwardAndInput) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.options.decoupled = true;
  plan.committed = {StageId(1)};
  plan.initial = {
      {{PipelineId(0), StageId(1)}, 3, ParseActions("1F0.0 1F0.1 1B0.0 1B0.1").value()}};
  plan.workers[0].actions = ParseActions("0F0.0 0F0.1 0B0.0 0B0.1").value();
  const auto with = [&](const char* regenerations) {
    plan.workers[1].actions = ParseActions(regenerations).value();
    AddStepActions(plan);
    return RulesBroken(plan);
  };
  EXPECT_THAT(with(""), IsEmpty());
  EXPECT_TRUE(plan.workers[1].actions.empty()) << "a committed stage gets no step actions";
  EXPECT_THAT(with("1F0.1 1I0.1"), IsEmpty());
  EXPECT_THAT(with("1I0.1"), IsEmpty());
  EXPECT_EQ(with("1F0.1 1F0.1"), std::set<int>{1});
  EXPECT_EQ(with("1W0.1"), std::set<int>{1});
  EXPECT_EQ(with("1I0.1 1F0.1"), std::set<int>{2});
  plan.costs.stages[1].capacity_bytes = 1;
  EXPECT_THAT(with("1F0.0 1I0.0 1F0.1"), IsEmpty());
  EXPECT_EQ(with("1F0.0 1F0.1 1I0.0"), std::set<int>{4}) << "0.0's activation waits for its I";
  plan.initial.clear();
  EXPECT_THAT(FirstMessage(plan), HasSubstr("only together with initial"));
}

TEST(Validate, SayNoMoreThanTheLimit) {
  Plan plan = GPipePlan(2, 2, 50);
  for (WorkerSchedule& entry : plan.workers) entry.actions.clear();
  EXPECT_EQ(FindViolations(plan, 7).size(), 7U);
  EXPECT_THAT(std::string(Validate(plan).message()), HasSubstr("20 violation(s) or more"));
}

}  // namespace
}  // namespace recycle
