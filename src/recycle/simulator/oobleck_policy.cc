#include "recycle/simulator/oobleck_policy.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace recycle {
namespace {

// Pipelines of one size.
struct Template {
  int count = 0;   // pipelines
  int stages = 0;  // s, workers of each
  double stage_s = 0;

  // Micro-batches that all of them finish in `limit_s`.
  std::int64_t Capacity(double limit_s) const {
    const auto slots = static_cast<std::int64_t>(std::floor(limit_s / stage_s + 1e-9));
    return count * std::max<std::int64_t>(0, slots - stages + 1);
  }
};

}  // namespace

double TemplateIterationSeconds(int live, int least_stages, int layers, double layer_s,
                                int num_micro_batches) {
  const int pipelines = live / least_stages;
  if (pipelines == 0) return std::numeric_limits<double>::infinity();
  std::array<Template, 2> sizes;
  for (int bigger = 0; bigger < 2; ++bigger) {
    Template& size = sizes[static_cast<std::size_t>(bigger)];
    size.stages = std::min(live / pipelines + bigger, layers);
    size.count = bigger == 1 ? live % pipelines : pipelines - live % pipelines;
    const int layers_of_a_stage = (layers + size.stages - 1) / size.stages;
    size.stage_s = layers_of_a_stage * layer_s;
  }
  double least_s = std::numeric_limits<double>::infinity();
  // The optimum is a whole number of one of the sizes' stage times.
  for (const Template& size : sizes) {
    if (size.count == 0) continue;
    std::int64_t low = 1;
    std::int64_t high = std::int64_t{num_micro_batches} + size.stages;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      const double limit_s = static_cast<double>(middle) * size.stage_s;
      const std::int64_t done = sizes[0].Capacity(limit_s) + sizes[1].Capacity(limit_s);
      if (done >= num_micro_batches) high = middle;
      if (done < num_micro_batches) low = middle + 1;
    }
    least_s = std::min(least_s, static_cast<double>(low) * size.stage_s);
  }
  return least_s;
}

Status OobleckPolicy::UpdatePace() {
  const auto [entry, is_new] = iteration_s_.emplace(live_.count(), 0);
  if (is_new) {
    Ticks all = 0;
    for (const StageCosts& stage : input_.job.costs.stages) {
      all += stage.forward + stage.backward_input + stage.backward_weight;
    }
    entry->second =
        TemplateIterationSeconds(live_.count(), live_.num_stages(), input_.job.layers,
                                 Seconds(all) / input_.job.layers, input_.job.num_micro_batches());
  }
  const double per_s = 1 / entry->second;  // 0 if there is no pipeline
  pace_ = {
      .iterations_per_s = per_s, .batches_per_s = per_s, .period_s = per_s > 0 ? 1 / per_s : 0};
  return OkStatus();
}

Reaction OobleckPolicy::OnFailure(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                  const Pace& /*before*/) {
  const double detect_s = input_.constants.oobleck_detect_s;
  if (live_.count() < live_.num_stages()) {
    return {.stall_s = detect_s + input_.constants.restart.restart_s, .back_to_checkpoint = true};
  }
  return {.stall_s = detect_s + input_.constants.oobleck_reconfigure_s, .iteration_lost = true};
}

Reaction OobleckPolicy::OnJoin(const std::vector<int>& /*places*/, const Moment& moment,
                               const Pace& before) {
  if (pace_.batches_per_s > 0 && before.batches_per_s == 0 && !moment.stalled) {
    return {.stall_s = input_.constants.restart.restart_s};
  }
  return StallOnJoin(input_.constants.oobleck_reconfigure_s, moment);
}

}  // namespace recycle
