#include "recycle/testing/model/model_job.h"

#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

constexpr int kStagePart = 0;
constexpr int kTiedPart = 1;

std::uint64_t Key(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

Plan RandomWholePlan(const ModelJob& job, const std::vector<WorkerId>& failed, std::uint64_t seed) {
  Prng prng(seed);
  Plan plan;
  plan.parallel = job.parallel();
  plan.micro_batches = job.micro_batches;
  plan.failed = failed;
  plan.options.staggered = job.staggered;
  StageCosts unit;
  unit.forward = unit.backward_input = unit.backward_weight = kTicksPerUnit;
  plan.costs.stages.assign(Index(job.pipeline), unit);
  plan.costs.send_forward.assign(Index(job.pipeline - 1), 0);
  plan.costs.send_backward = plan.costs.send_forward;
  for (const WorkerId worker : LiveWorkers(plan.parallel, failed)) {
    plan.workers.push_back({worker, {}});
  }
  const int count = job.data * job.micro_batches;
  // Per micro-batch and stage: what is done (0 none, 1 F, 2 I, 3 W) and by whom.
  std::vector<std::vector<int>> done(Index(count), std::vector<int>(Index(job.pipeline)));
  std::vector<std::vector<WorkerSchedule*>> owner(Index(count));
  for (auto& row : owner) {
    for (int stage = 0; stage < job.pipeline; ++stage) {
      std::vector<WorkerSchedule*> peers;
      for (WorkerSchedule& schedule : plan.workers) {
        if (schedule.worker.stage == StageId(stage)) peers.push_back(&schedule);
      }
      RC_CHECK(!peers.empty()) << "stage " << stage << " has no live worker";
      row.push_back(peers[prng.Below(peers.size())]);
    }
  }
  for (int left = 3 * count * job.pipeline; left > 0;) {
    const auto b = static_cast<std::size_t>(prng.Below(Key(count)));
    const auto i = static_cast<std::size_t>(prng.Below(Key(job.pipeline)));
    const int state = done[b][i];
    const bool last = i + 1 == Index(job.pipeline);
    const bool ready = (state == 0 && (i == 0 || done[b][i - 1] >= 1)) ||
                       (state == 1 && (last || done[b][i + 1] >= 2)) || state == 2;
    if (!ready) continue;
    const int number = static_cast<int>(b);
    owner[b][i]->actions.push_back(
        {static_cast<ActionKind>(state),
         StageId(static_cast<int>(i)),
         {PipelineId(number / job.micro_batches), number % job.micro_batches}});
    ++done[b][i];
    --left;
  }
  AddStepActions(plan);
  return plan;
}

UnharmedRun::UnharmedRun(const ModelJob& job) {
  const int stages = job.pipeline;
  const int count = job.data * job.micro_batches;
  params.emplace_back();
  for (int i = 0; i < stages; ++i) params[0].push_back(HashKeys({7, job.seed, Key(i)}));
  for (int t = 0; t < job.iterations; ++t) {
    const std::vector<std::uint64_t> now = params[Index(t)];
    std::vector<std::vector<std::uint64_t>> out(Index(stages),
                                                std::vector<std::uint64_t>(Index(count)));
    std::vector<std::vector<std::uint64_t>> grad = out;
    std::vector<std::array<std::uint64_t, 2>> sums(Index(stages), {0, 0});
    for (int b = 0; b < count; ++b) {
      for (int i = 0; i < stages; ++i) {
        const std::uint64_t in = i == 0 ? Tokens(job.seed, t, b) : out[Index(i - 1)][Index(b)];
        out[Index(i)][Index(b)] = ForwardOf(now[Index(i)], in);
      }
      for (int i = stages - 1; i >= 0; --i) {
        const std::uint64_t in = i == 0 ? Tokens(job.seed, t, b) : out[Index(i - 1)][Index(b)];
        const std::uint64_t gradient =
            i + 1 == stages ? LossGradient(out[Index(i)][Index(b)]) : grad[Index(i + 1)][Index(b)];
        grad[Index(i)][Index(b)] = InputGradient(now[Index(i)], in, gradient);
        sums[Index(i)][kStagePart] += WeightGradient(in, gradient, kStagePart);
        sums[Index(i)][kTiedPart] += WeightGradient(in, gradient, kTiedPart);
      }
    }
    const bool tied = job.tied && stages > 1;
    const std::uint64_t tied_sum = sums.front()[kTiedPart] + sums.back()[kTiedPart];
    params.emplace_back();
    for (int i = 0; i < stages; ++i) {
      const bool in_unit = tied && (i == 0 || i + 1 == stages);
      params.back().push_back(
          StepOf(now[Index(i)], {sums[Index(i)][kStagePart], in_unit ? tied_sum : 0}));
    }
    outputs.push_back(std::move(out));
    gradients.push_back(std::move(grad));
  }
}

}  // namespace recycle
