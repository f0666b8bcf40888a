#include "recycle/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "recycle/base/check.h"

namespace recycle {
namespace {

// Which step actions of one stage a worker still lacks.
struct MissingSteps {
  StageId stage;
  bool reduce = true;
  bool validate = true;
  bool step = true;
};

void Discount(const std::vector<Action>& actions, MissingSteps& missing) {
  for (const Action& action : actions) {
    if (action.stage != missing.stage) continue;
    if (action.kind == ActionKind::kReduceGrad) missing.reduce = false;
    if (action.kind == ActionKind::kValidate) missing.validate = false;
    if (action.kind == ActionKind::kStep) missing.step = false;
  }
}

bool IsFirstBackward(const Action& action) {
  return action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackward;
}

// What `worker` has done before the plan starts; empty for ordinary plans.
std::vector<Action> DoneBy(const Plan& plan, WorkerId worker) {
  for (const InitialState& state : plan.initial) {
    if (state.worker == worker) return state.done;
  }
  return {};
}

// Puts each missing VALIDATE of a staggered plan before the stage's first I or B, or at the end if
// the worker has none.
void InsertEarlyValidates(std::vector<MissingSteps>& missing, std::vector<Action>& actions) {
  for (MissingSteps& stage : missing) {
    if (!stage.validate) continue;
    const auto place = std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
      return action.stage == stage.stage &&
             (IsFirstBackward(action) || action.kind == ActionKind::kReduceGrad);
    });
    actions.insert(place, Action{ActionKind::kValidate, stage.stage, {}});
    stage.validate = false;
  }
}

Status Refuse(const std::string& message) { return absl::InvalidArgumentError(message); }

Status CheckSizes(const Plan& plan) {
  constexpr std::int64_t kMaxWorkers = std::int64_t{1} << 20;
  constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 26;  // over all stages and pipelines
  const Parallelism& parallel = plan.parallel;
  const std::pair<const char*, std::int64_t> sizes[] = {{"data", parallel.data},
                                                        {"pipeline", parallel.pipeline},
                                                        {"tensor", parallel.tensor},
                                                        {"virtual", parallel.virtual_stages},
                                                        {"micro_batches", plan.micro_batches}};
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kMaxWorkers) {
      return Refuse(fmt::format("{} = {}: must be from 1 to {}", name, size, kMaxWorkers));
    }
  }
  const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.virtual_stages;
  if (stages * parallel.data > kMaxWorkers) {
    return Refuse(
        fmt::format("data * pipeline * virtual = {} stages over all pipelines: must be at "
                    "most {}",
                    stages * parallel.data, kMaxWorkers));
  }
  if (stages * parallel.data * plan.micro_batches > kMaxMicroBatches) {
    return Refuse(
        fmt::format("{} stages with {} x {} micro-batches: their product must be at most {}",
                    stages, parallel.data, plan.micro_batches, kMaxMicroBatches));
  }
  if (parallel.placement == Placement::kV && parallel.virtual_stages != 2) {
    return Refuse(
        fmt::format("virtual = {} with placement \"v\": the V has exactly 2 stages a worker",
                    parallel.virtual_stages));
  }
  return OkStatus();
}

Status CheckCosts(const Plan& plan) {
  const std::size_t stages = static_cast<std::size_t>(plan.parallel.num_stages());
  const CostProfile& costs = plan.costs;
  if (costs.stages.size() != stages) {
    return Refuse(fmt::format("costs.stages has {} entries: must have {}, one per stage",
                              costs.stages.size(), stages));
  }
  if (costs.send_forward.size() != stages - 1 || costs.send_backward.size() != stages - 1) {
    return Refuse(
        fmt::format("send_forward has {} and send_backward {} entries: must have {}, one "
                    "per boundary between stages",
                    costs.send_forward.size(), costs.send_backward.size(), stages - 1));
  }
  for (std::size_t i = 0; i < stages; ++i) {
    const StageCosts& stage = costs.stages[i];
    const double bytes[] = {
        stage.activation_bytes, stage.deferred_bytes,  stage.capacity_bytes.value_or(0),
        stage.boundary_bytes,   stage.parameter_bytes, stage.state_bytes};
    for (const double value : bytes) {
      if (!std::isfinite(value) || value < 0) {
        return Refuse(
            fmt::format("costs of stage {}: {} bytes: must be finite and at least 0", i, value));
      }
    }
    if (stage.deferred_bytes > stage.activation_bytes) {
      return Refuse(
          fmt::format("costs of stage {}: deferred_bytes {} above activation_bytes {}: I can "
                      "only free memory",
                      i, stage.deferred_bytes, stage.activation_bytes));
    }
    const Ticks durations[] = {stage.forward, stage.backward_input, stage.backward_weight,
                               stage.optimizer, stage.all_reduce};
    if (*std::min_element(std::begin(durations), std::end(durations)) < 0) {
      return Refuse(fmt::format("costs of stage {}: a duration is negative", i));
    }
  }
  const auto negative = [](Ticks ticks) { return ticks < 0; };
  if (std::any_of(costs.send_forward.begin(), costs.send_forward.end(), negative) ||
      std::any_of(costs.send_backward.begin(), costs.send_backward.end(), negative)) {
    return Refuse("send_forward, send_backward: a duration is negative");
  }
  return OkStatus();
}

Status CheckWorkerIds(const Plan& plan) {
  const auto check = [&](WorkerId worker, const char* where) -> Status {
    const int pipeline = worker.pipeline.value();
    const int column = worker.stage.value();
    if (pipeline >= 0 && pipeline < plan.parallel.data && column >= 0 &&
        column < plan.parallel.pipeline) {
      return OkStatus();
    }
    return Refuse(fmt::format("{} names worker {}: pipelines are 0 to {}, worker columns 0 to {}",
                              where, ToString(worker), plan.parallel.data - 1,
                              plan.parallel.pipeline - 1));
  };
  for (const WorkerId worker : plan.failed) RC_RETURN_IF_ERROR(check(worker, "failed"));
  for (const SlowWorker& slow : plan.slow) {
    RC_RETURN_IF_ERROR(check(slow.worker, "slow"));
    constexpr double kMaxFactor = 1e6;
    if (!(slow.factor > 0) || slow.factor > kMaxFactor) {
      return Refuse(fmt::format("slow factor {} of worker {}: must be above 0 and at most {:.0f}",
                                slow.factor, ToString(slow.worker), kMaxFactor));
    }
  }
  for (const InitialState& state : plan.initial) RC_RETURN_IF_ERROR(check(state.worker, "initial"));
  for (const CopyMove& copy : plan.copies) {
    RC_RETURN_IF_ERROR(check(copy.from, "copies"));
    RC_RETURN_IF_ERROR(check(copy.to, "copies"));
  }
  for (const WorkerSchedule& entry : plan.workers)
    RC_RETURN_IF_ERROR(check(entry.worker, "workers"));
  for (const StageId stage : plan.committed) {
    if (stage.value() < 0 || stage.value() >= plan.parallel.num_stages()) {
      return Refuse(fmt::format("committed names stage {}: stages are 0 to {}", stage.value(),
                                plan.parallel.num_stages() - 1));
    }
  }
  return OkStatus();
}

}  // namespace

StageId Parallelism::Column(StageId stage) const {
  if (virtual_stages == 1) return stage;
  switch (placement) {
    case Placement::kInterleaved:
      return StageId(stage.value() % pipeline);
    case Placement::kV:
      return StageId(std::min(stage.value(), 2 * pipeline - 1 - stage.value()));
  }
  RC_CHECK(false) << "placement " << static_cast<int>(placement);
  return {};
}

std::vector<StageId> StagesOfColumn(const Parallelism& parallel, StageId column) {
  const int first = column.value();
  if (parallel.virtual_stages == 1) return {column};
  if (parallel.placement == Placement::kV) {
    return {column, StageId(2 * parallel.pipeline - 1 - first)};
  }
  std::vector<StageId> stages;
  for (int s = first; s < parallel.num_stages(); s += parallel.pipeline) stages.emplace_back(s);
  return stages;
}

Status CheckPlanShape(const Plan& plan) {
  RC_RETURN_IF_ERROR(CheckSizes(plan));
  RC_RETURN_IF_ERROR(CheckCosts(plan));
  return CheckWorkerIds(plan);
}

std::vector<WorkerId> LiveWorkers(const Parallelism& parallel,
                                  const std::vector<WorkerId>& failed) {
  std::vector<WorkerId> dead = failed;
  std::sort(dead.begin(), dead.end());
  std::vector<WorkerId> live;
  live.reserve(static_cast<std::size_t>(parallel.num_workers()));
  for (int k = 0; k < parallel.data; ++k) {
    for (int i = 0; i < parallel.pipeline; ++i) {
      const WorkerId worker{PipelineId(k), StageId(i)};
      if (!std::binary_search(dead.begin(), dead.end(), worker)) live.push_back(worker);
    }
  }
  return live;
}

std::vector<int> LivePerStage(const Parallelism& parallel, const std::vector<WorkerId>& failed) {
  std::vector<int> live(static_cast<std::size_t>(parallel.pipeline), 0);
  for (const WorkerId worker : LiveWorkers(parallel, failed)) {
    ++live[static_cast<std::size_t>(worker.stage.value())];
  }
  return live;
}

Assignment::Assignment(const Plan& plan)
    : num_stages_(plan.parallel.num_stages()),
      num_pipelines_(plan.parallel.data),
      micro_batches_(plan.micro_batches),
      pipeline_of_(static_cast<std::size_t>(num_stages_) *
                       static_cast<std::size_t>(num_pipelines_) *
                       static_cast<std::size_t>(micro_batches_),
                   -1),
      parallel_(plan.parallel) {
  const auto note = [this](WorkerId worker, const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (action.kind != ActionKind::kForward) continue;
      const std::size_t index = Index(action.stage, action.micro_batch);
      if (index < pipeline_of_.size()) pipeline_of_[index] = worker.pipeline.value();
    }
  };
  for (const InitialState& state : plan.initial) note(state.worker, state.done);
  for (const WorkerSchedule& entry : plan.workers) note(entry.worker, entry.actions);
}

// One past the end for ids out of range.
std::size_t Assignment::Index(StageId stage, MicroBatch micro_batch) const {
  const int s = stage.value();
  const int k = micro_batch.home.value();
  const int m = micro_batch.index;
  if (s < 0 || s >= num_stages_ || k < 0 || k >= num_pipelines_ || m < 0 || m >= micro_batches_) {
    return pipeline_of_.size();
  }
  return (static_cast<std::size_t>(s) * static_cast<std::size_t>(micro_batches_) +
          static_cast<std::size_t>(m)) *
             static_cast<std::size_t>(num_pipelines_) +
         static_cast<std::size_t>(k);
}

std::optional<WorkerId> Assignment::WorkerOf(StageId stage, MicroBatch micro_batch) const {
  const std::size_t index = Index(stage, micro_batch);
  if (index == pipeline_of_.size() || pipeline_of_[index] < 0) return std::nullopt;
  return WorkerId{PipelineId(pipeline_of_[index]), parallel_.Column(stage)};
}

void AddStepActions(Plan& plan) {
  std::vector<std::vector<StageId>> stages_of_column;
  stages_of_column.reserve(static_cast<std::size_t>(plan.parallel.pipeline));
  for (int i = 0; i < plan.parallel.pipeline; ++i) {
    stages_of_column.push_back(StagesOfColumn(plan.parallel, StageId(i)));
  }
  for (WorkerSchedule& entry : plan.workers) {
    const std::vector<Action> done = DoneBy(plan, entry.worker);
    std::vector<MissingSteps> missing;
    for (const StageId stage :
         stages_of_column[static_cast<std::size_t>(entry.worker.stage.value())]) {
      if (std::count(plan.committed.begin(), plan.committed.end(), stage) > 0) continue;
      MissingSteps steps{stage};
      Discount(done, steps);
      Discount(entry.actions, steps);
      const auto judged = [&](const Action& a) { return a.stage == stage && IsFirstBackward(a); };
      if (plan.options.staggered && std::any_of(done.begin(), done.end(), judged)) {
        steps.validate = false;
      }
      missing.push_back(steps);
    }
    std::vector<Action>& actions = entry.actions;
    const auto append = [&](const MissingSteps& steps, bool wanted, ActionKind kind) {
      if (wanted) actions.push_back(Action{kind, steps.stage, {}});
    };
    if (plan.options.staggered) {
      InsertEarlyValidates(missing, actions);
      for (const MissingSteps& steps : missing) {
        append(steps, steps.reduce, ActionKind::kReduceGrad);
        append(steps, steps.step, ActionKind::kStep);
      }
      continue;
    }
    for (const MissingSteps& steps : missing) append(steps, steps.reduce, ActionKind::kReduceGrad);
    for (const MissingSteps& steps : missing) append(steps, steps.validate, ActionKind::kValidate);
    for (const MissingSteps& steps : missing) append(steps, steps.step, ActionKind::kStep);
  }
}

}  // namespace recycle
