// How long judging a plan takes, per action: validation, the exact figures, the file format.
// The plan is 32x64 with M 64 by 1F1B, split into F, I, W and staggered (393,216 actions).
#include <benchmark/benchmark.h>

#include "recycle/plan/plan_json.h"
#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"

namespace recycle {
namespace {

Plan BigPlan(int micro_batches) {
  Plan plan;
  plan.parallel = {32, 64, 1, 1, Placement::kInterleaved};
  plan.micro_batches = micro_batches;
  StageCosts stage;
  stage.forward = kTicksPerUnit;
  stage.backward_input = kTicksPerUnit * 105 / 100;
  stage.backward_weight = kTicksPerUnit * 85 / 100;
  plan.costs.stages.assign(64, stage);
  plan.costs.send_forward.assign(63, kTicksPerUnit / 20);
  plan.costs.send_backward = plan.costs.send_forward;
  for (const WorkerId worker : LiveWorkers(plan.parallel, {})) {
    std::vector<Action> actions;
    const auto add = [&](ActionKind kind, int m) {
      actions.push_back({kind, worker.stage, {worker.pipeline, m}});
    };
    const int ahead = 64 - worker.stage.value();
    for (int m = 0; m < micro_batches + ahead; ++m) {
      if (m < micro_batches) add(ActionKind::kForward, m);
      if (m < ahead) continue;
      add(ActionKind::kBackwardInput, m - ahead);
      add(ActionKind::kBackwardWeight, m - ahead);
    }
    plan.workers.push_back({worker, std::move(actions)});
  }
  AddStepActions(plan);
  return plan;
}

void CountActions(benchmark::State& state, const Plan& plan) {
  std::int64_t actions = 0;
  for (const WorkerSchedule& entry : plan.workers) {
    actions += static_cast<std::int64_t>(entry.actions.size());
  }
  state.SetItemsProcessed(state.iterations() * actions);
}

void BM_Figures(benchmark::State& state) {
  const Plan plan = BigPlan(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(ComputeFigures(plan).value().period);
  CountActions(state, plan);
}
BENCHMARK(BM_Figures)->Arg(64)->Arg(128)->Unit(benchmark::kMillisecond);

void BM_Validate(benchmark::State& state) {
  const Plan plan = BigPlan(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Validate(plan).ok());
  CountActions(state, plan);
}
BENCHMARK(BM_Validate)->Arg(64)->Arg(128)->Unit(benchmark::kMillisecond);

void BM_Write(benchmark::State& state) {
  const Plan plan = BigPlan(64);
  for (auto _ : state) benchmark::DoNotOptimize(PlanToJson(plan).size());
  CountActions(state, plan);
}
BENCHMARK(BM_Write)->Unit(benchmark::kMillisecond);

void BM_Read(benchmark::State& state) {
  const std::string text = PlanToJson(BigPlan(64));
  for (auto _ : state) benchmark::DoNotOptimize(PlanFromJson(text).ok());
}
BENCHMARK(BM_Read)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace recycle

BENCHMARK_MAIN();
