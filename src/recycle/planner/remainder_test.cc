#include "recycle/planner/remainder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "recycle/base/index.h"
#include "recycle/base/prng.h"
#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/planner.h"

namespace recycle {
namespace {

constexpr ActionKind kChain[] = {ActionKind::kForward, ActionKind::kBackwardInput,
                                 ActionKind::kBackwardWeight};

// How far every micro-batch has come at every stage, and who has it.
struct Cell {
  WorkerId owner;
  int done = 0;  // of F, I, W
};
using Cells = std::map<std::pair<StageId, MicroBatch>, Cell>;

PlanRequest DrawRequest(Prng& prng) {
  PlanRequest request;
  request.parallel = {.data = 2 + static_cast<int>(prng.Below(3)),
                      .pipeline = 1 + static_cast<int>(prng.Below(4))};
  request.micro_batches = 1 + static_cast<int>(prng.Below(5));
  const bool capped = prng.Below(2) == 0;
  for (int i = 0; i < request.parallel.pipeline; ++i) {
    StageCosts stage;
    stage.forward = static_cast<Ticks>(1 + prng.Below(3)) * kTicksPerUnit;
    stage.backward_input = static_cast<Ticks>(1 + prng.Below(3)) * kTicksPerUnit;
    stage.backward_weight = static_cast<Ticks>(prng.Below(3)) * kTicksPerUnit;
    stage.activation_bytes = 4;
    stage.deferred_bytes = static_cast<double>(prng.Below(5));
    if (capped) stage.capacity_bytes = 4.0 * (request.parallel.pipeline - i);
    request.costs.stages.push_back(stage);
  }
  request.costs.send_forward.assign(Index(request.parallel.pipeline - 1), kTicksPerUnit / 2);
  request.costs.send_backward = request.costs.send_forward;
  request.options = {.decoupled = true, .staggered = prng.Below(2) == 0};
  request.effort = Effort::kOnline;
  return request;
}

// Plays `plan` in a random order for a random number of actions.
Cells PlayPart(const Plan& plan, Prng& prng) {
  Cells cells;
  std::vector<std::pair<const WorkerSchedule*, std::size_t>> heads;
  std::size_t total = 0;
  for (const WorkerSchedule& schedule : plan.workers) {
    heads.emplace_back(&schedule, 0);
    for (const Action& action : schedule.actions) {
      if (!HasMicroBatch(action.kind)) continue;
      cells[{action.stage, action.micro_batch}].owner = schedule.worker;
      ++total;
    }
  }
  const int stages = plan.parallel.pipeline;
  const auto done = [&](int stage, MicroBatch b) { return cells.at({StageId(stage), b}).done; };
  std::size_t tries = 40 * prng.Below(total + 1);
  for (; tries > 0; --tries) {
    auto& [schedule, head] = heads[prng.Below(heads.size())];
    while (head < schedule->actions.size() && !HasMicroBatch(schedule->actions[head].kind)) ++head;
    if (head == schedule->actions.size()) continue;
    const Action& action = schedule->actions[head];
    const int s = action.stage.value();
    const bool forward = action.kind == ActionKind::kForward;
    if (forward && s > 0 && done(s - 1, action.micro_batch) < 1) continue;
    const bool backward =
        action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackward;
    if (backward && s + 1 < stages && done(s + 1, action.micro_batch) < 2) continue;
    Cell& cell = cells.at({action.stage, action.micro_batch});
    cell.done += action.kind == ActionKind::kBackward ? 2 : 1;
    ++head;
  }
  return cells;
}

// Some workers die; their micro-batches go to random peers, those of the others stay. A stage that
// is committed only regenerates.
Plan DrawRest(Prng& prng) {
  const PlanRequest request = DrawRequest(prng);
  const Plan plan = MakePlan(request).value();
  const Cells cells = PlayPart(plan, prng);
  Plan rest = plan;
  rest.workers.clear();
  for (int stage = 0; stage < request.parallel.pipeline; ++stage) {
    const int survivor = static_cast<int>(prng.Below(Index(request.parallel.data)));
    for (int k = 0; k < request.parallel.data; ++k) {
      if (k != survivor && prng.Below(3) == 0) {
        rest.failed.push_back({PipelineId(k), StageId(stage)});
      }
    }
    if (prng.Below(4) == 0) rest.committed.emplace_back(stage);
  }
  std::sort(rest.failed.begin(), rest.failed.end());
  std::map<WorkerId, std::vector<Action>> done;
  std::map<WorkerId, std::vector<Action>> actions;
  for (const WorkerId worker : LiveWorkers(rest.parallel, rest.failed)) {
    done[worker];
    actions[worker];
  }
  for (const auto& [key, cell] : cells) {
    const auto& [stage, b] = key;
    const bool committed = std::count(rest.committed.begin(), rest.committed.end(), stage) > 0;
    std::vector<WorkerId> peers;
    for (const auto& [worker, list] : done) {
      if (worker.stage == stage) peers.push_back(worker);
    }
    const bool lives = done.contains(cell.owner);
    const WorkerId runner = lives ? cell.owner : peers[prng.Below(peers.size())];
    const int reached = lives ? cell.done : 0;
    for (int kind = 0; kind < reached; ++kind) done[runner].push_back({kChain[kind], stage, b});
    if (committed && lives) continue;
    const int last = committed ? static_cast<int>(prng.Below(3)) : 3;
    for (int kind = reached; kind < last; ++kind)
      actions[runner].push_back({kChain[kind], stage, b});
  }
  for (const auto& [worker, list] : done) {
    // As memory stands now: what is through first, then what is deferred, then what is stashed.
    std::vector<Action> ordered = list;
    const auto reached = [&](const Action& a) { return -cells.at({a.stage, a.micro_batch}).done; };
    std::stable_sort(ordered.begin(), ordered.end(),
                     [&](const Action& a, const Action& b) { return reached(a) < reached(b); });
    rest.initial.push_back({worker, 1, ordered});
    std::vector<Action>& shuffled = actions[worker];
    prng.Shuffle(shuffled);
    rest.workers.push_back({worker, shuffled});
  }
  return rest;
}

std::vector<Action> Sorted(std::vector<Action> actions) {
  std::sort(actions.begin(), actions.end());
  return actions;
}

TEST(Remainder, IsLegalWhereverTheIterationWasCut) {
  constexpr int kRuns = 3000;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Prng prng(seed);
    Plan rest = DrawRest(prng);
    const StatusOr<Schedule> order = OrderRemainder(rest);
    ASSERT_TRUE(order.ok()) << order.status();
    ASSERT_EQ(order->size(), rest.workers.size());
    for (std::size_t w = 0; w < order->size(); ++w) {
      EXPECT_EQ(Sorted((*order)[w].actions), Sorted(rest.workers[w].actions));
    }
    rest.workers = *order;
    AddStepActions(rest);
    const Status legal = Validate(rest);
    ASSERT_TRUE(legal.ok()) << legal;
  }
}

TEST(Remainder, OfAWholeIterationIsCloseToThePlan) {
  PlanRequest request;
  request.parallel = {.data = 3, .pipeline = 4};
  request.micro_batches = 6;
  StageCosts stage;
  stage.forward = stage.backward_input = stage.backward_weight = kTicksPerUnit;
  request.costs.stages.assign(4, stage);
  request.costs.send_forward.assign(3, 0);
  request.costs.send_backward.assign(3, 0);
  request.options = {.decoupled = true, .staggered = false};
  request.failed = {{PipelineId(1), StageId(2)}};
  const Plan plan = MakePlan(request).value();
  Plan rest = plan;
  for (WorkerSchedule& schedule : rest.workers) {
    std::erase_if(schedule.actions, [](const Action& a) { return !HasMicroBatch(a.kind); });
    rest.initial.push_back({schedule.worker, 1, {}});
  }
  rest.workers = OrderRemainder(rest).value();
  AddStepActions(rest);
  const Ticks makespan = ComputeTimeline(rest).value().makespan;
  EXPECT_LE(static_cast<double>(makespan), 1.15 * static_cast<double>(*plan.makespan))
      << ToUnits(makespan) << " against " << ToUnits(*plan.makespan);
}

TEST(Remainder, SaysWhoIsStuckWhenMemoryIsTooSmall) {
  Plan rest;
  rest.parallel = {.data = 1, .pipeline = 1};
  rest.costs.stages.resize(1);
  rest.costs.stages[0].activation_bytes = 2;
  rest.costs.stages[0].capacity_bytes = 1;
  rest.initial = {{WorkerId(), 1, {}}};
  rest.workers = {{WorkerId(), ParseActions("0F0.0 0I0.0 0W0.0").value()}};
  const StatusOr<Schedule> order = OrderRemainder(rest);
  EXPECT_EQ(order.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(order.status().message().find("worker 0:0"), std::string::npos) << order.status();
}

TEST(Remainder, Of64Times16TakesMilliseconds) {
  PlanRequest request;
  request.parallel = {.data = 64, .pipeline = 16};
  request.micro_batches = 16;
  StageCosts stage;
  stage.forward = stage.backward_input = stage.backward_weight = kTicksPerUnit;
  request.costs.stages.assign(16, stage);
  request.costs.send_forward.assign(15, 0);
  request.costs.send_backward.assign(15, 0);
  request.effort = Effort::kOnline;
  Plan rest = MakePlan(request).value();
  for (WorkerSchedule& schedule : rest.workers) {
    std::erase_if(schedule.actions, [](const Action& a) { return !HasMicroBatch(a.kind); });
    rest.initial.push_back({schedule.worker, 1, {}});
  }
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(OrderRemainder(rest).ok());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("64 x 16, 16 micro-batches per pipeline: %.1f ms\n", took.count());
  EXPECT_LT(took.count(), 1000);
}

}  // namespace
}  // namespace recycle
