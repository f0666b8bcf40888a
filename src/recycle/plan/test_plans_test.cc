// The bodies of test_plans.h: a *_test.cc, so that they stay out of the library.
#include "recycle/plan/test_plans.h"

#include <algorithm>
#include <utility>

namespace recycle {
namespace {

Plan EmptyPlan(int data, int pipeline, int micro_batches, PlanOptions options) {
  Plan plan;
  plan.parallel = {data, pipeline, 1, 1, Placement::kInterleaved};
  plan.micro_batches = micro_batches;
  plan.options = options;
  plan.costs = UnitCosts(pipeline);
  for (const WorkerId worker : LiveWorkers(plan.parallel, {})) plan.workers.push_back({worker, {}});
  return plan;
}

Action On(WorkerId worker, ActionKind kind, int m) {
  return Action{kind, worker.stage, MicroBatch{worker.pipeline, m}};
}

StageCosts RandomStage(Prng& prng) {
  const auto ticks = [&](std::uint64_t below) { return static_cast<Ticks>(prng.Below(below)); };
  StageCosts stage;
  stage.forward = 1 + ticks(3 * kTicksPerUnit);
  stage.backward_input = 1 + ticks(3 * kTicksPerUnit);
  stage.backward_weight = ticks(3 * kTicksPerUnit);
  stage.optimizer = ticks(2 * kTicksPerUnit);
  stage.all_reduce = ticks(2 * kTicksPerUnit);
  stage.activation_bytes = static_cast<double>(prng.Below(1000));
  stage.deferred_bytes = stage.activation_bytes * prng.Uniform();
  return stage;
}

Parallelism RandomShape(Prng& prng, const RandomPlanLimits& limits) {
  Parallelism parallel;
  parallel.data = 1 + static_cast<int>(prng.Below(static_cast<std::uint64_t>(limits.data)));
  parallel.pipeline = 1 + static_cast<int>(prng.Below(static_cast<std::uint64_t>(limits.pipeline)));
  if (limits.virtual_stages) {
    parallel.virtual_stages = 2 + static_cast<int>(prng.Below(2));
    const bool v = parallel.virtual_stages == 2 && prng.Below(2) == 0;
    parallel.placement = v ? Placement::kV : Placement::kInterleaved;
  }
  return parallel;
}

void DrawFailures(Prng& prng, Plan& plan) {
  for (int i = 0; i < plan.parallel.pipeline; ++i) {
    const int alive = static_cast<int>(prng.Below(static_cast<std::uint64_t>(plan.parallel.data)));
    for (int k = 0; k < plan.parallel.data; ++k) {
      if (k != alive && prng.Below(3) == 0) plan.failed.push_back({PipelineId(k), StageId(i)});
    }
  }
  std::sort(plan.failed.begin(), plan.failed.end());
}

// The chain of actions a micro-batch runs through, and who runs each.
struct Chain {
  std::vector<std::pair<Action, std::size_t>> actions;
  std::size_t next = 0;
};

Chain RandomChain(Prng& prng, const Plan& plan, MicroBatch b) {
  std::vector<std::size_t> owner;
  for (int s = 0; s < plan.parallel.num_stages(); ++s) {
    std::vector<std::size_t> peers;
    for (std::size_t w = 0; w < plan.workers.size(); ++w) {
      if (plan.workers[w].worker.stage == plan.parallel.Column(StageId(s))) peers.push_back(w);
    }
    owner.push_back(peers[prng.Below(peers.size())]);
  }
  Chain chain;
  const auto add = [&](ActionKind kind, int s) {
    chain.actions.push_back({Action{kind, StageId(s), b}, owner[static_cast<std::size_t>(s)]});
  };
  for (int s = 0; s < plan.parallel.num_stages(); ++s) add(ActionKind::kForward, s);
  for (int s = plan.parallel.num_stages() - 1; s >= 0; --s) {
    add(plan.options.decoupled ? ActionKind::kBackwardInput : ActionKind::kBackward, s);
  }
  return chain;
}

}  // namespace

CostProfile UnitCosts(int stages) {
  CostProfile costs;
  StageCosts stage;
  stage.forward = stage.backward_input = stage.backward_weight = kTicksPerUnit;
  stage.activation_bytes = stage.deferred_bytes = 1;
  costs.stages.assign(static_cast<std::size_t>(stages), stage);
  costs.send_forward.assign(static_cast<std::size_t>(stages - 1), 0);
  costs.send_backward = costs.send_forward;
  return costs;
}

Plan GPipePlan(int data, int pipeline, int micro_batches) {
  Plan plan = EmptyPlan(data, pipeline, micro_batches, {.decoupled = false, .staggered = false});
  for (auto& [worker, actions] : plan.workers) {
    for (int m = 0; m < micro_batches; ++m) actions.push_back(On(worker, ActionKind::kForward, m));
    for (int m = 0; m < micro_batches; ++m) actions.push_back(On(worker, ActionKind::kBackward, m));
  }
  AddStepActions(plan);
  return plan;
}

Plan OneFOneBPlan(int data, int pipeline, int micro_batches) {
  Plan plan = EmptyPlan(data, pipeline, micro_batches, {.decoupled = false, .staggered = false});
  for (auto& [worker, actions] : plan.workers) {
    const int warm_up = std::min(micro_batches, pipeline - 1 - worker.stage.value());
    int forwards = 0;
    while (forwards < warm_up) actions.push_back(On(worker, ActionKind::kForward, forwards++));
    for (int m = 0; m < micro_batches; ++m) {
      if (forwards < micro_batches) actions.push_back(On(worker, ActionKind::kForward, forwards++));
      actions.push_back(On(worker, ActionKind::kBackward, m));
    }
  }
  AddStepActions(plan);
  return plan;
}

Plan RandomPlan(Prng& prng, const RandomPlanLimits& limits) {
  Plan plan;
  plan.parallel = RandomShape(prng, limits);
  plan.micro_batches =
      1 + static_cast<int>(prng.Below(static_cast<std::uint64_t>(limits.micro_batches)));
  plan.options = {prng.Below(4) != 0, prng.Below(3) != 0};
  if (limits.failures) DrawFailures(prng, plan);
  for (int s = 0; s < plan.parallel.num_stages(); ++s) {
    plan.costs.stages.push_back(RandomStage(prng));
    if (s == 0) continue;
    plan.costs.send_forward.push_back(static_cast<Ticks>(prng.Below(kTicksPerUnit / 2)));
    plan.costs.send_backward.push_back(static_cast<Ticks>(prng.Below(kTicksPerUnit / 2)));
  }
  for (const WorkerId worker : LiveWorkers(plan.parallel, plan.failed)) {
    plan.workers.push_back({worker, {}});
    if (prng.Below(5) == 0) plan.slow.push_back({worker, 0.5 + prng.Uniform()});
  }
  // Micro-batches advance in random turns; a W becomes runnable with its I and waits in `weights`.
  std::vector<Chain> chains;
  for (int k = 0; k < plan.parallel.data; ++k) {
    for (int m = 0; m < plan.micro_batches; ++m) {
      chains.push_back(RandomChain(prng, plan, {PipelineId(k), m}));
    }
  }
  std::vector<std::pair<Action, std::size_t>> weights;
  while (!chains.empty() || !weights.empty()) {
    if (chains.empty() || (!weights.empty() && prng.Below(3) == 0)) {
      std::swap(weights[prng.Below(weights.size())], weights.back());
      plan.workers[weights.back().second].actions.push_back(weights.back().first);
      weights.pop_back();
      continue;
    }
    const std::size_t c = prng.Below(chains.size());
    const auto [action, worker] = chains[c].actions[chains[c].next++];
    plan.workers[worker].actions.push_back(action);
    if (action.kind == ActionKind::kBackwardInput) {
      weights.push_back(
          {Action{ActionKind::kBackwardWeight, action.stage, action.micro_batch}, worker});
    }
    if (chains[c].next == chains[c].actions.size()) {
      std::swap(chains[c], chains.back());
      chains.pop_back();
    }
  }
  AddStepActions(plan);
  return plan;
}

}  // namespace recycle
