#include "recycle/executor/cost_meter.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace recycle {
namespace {

Ticks MiddleOf(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return std::llround(*middle);
}

}  // namespace

Duration ThreadCpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void CostMeter::Note(ActionKind kind, int iteration, Duration took, const StageCosts& planned) {
  if (!on_ || !HasMicroBatch(kind)) return;
  if (!first_) first_ = iteration;
  if (iteration < *first_ + kWarmUp) return;
  const auto nanoseconds = static_cast<double>(took.count());
  if (kind != ActionKind::kBackward) {
    took_[kind].push_back(nanoseconds);
    return;
  }
  const auto input = static_cast<double>(planned.backward_input);
  const auto both = input + static_cast<double>(planned.backward_weight);
  const double share = both > 0 ? input / both : 0.5;
  took_[ActionKind::kBackwardInput].push_back(share * nanoseconds);
  took_[ActionKind::kBackwardWeight].push_back((1 - share) * nanoseconds);
}

std::optional<MeasuredCosts> CostMeter::TakeIfDone(int iteration) {
  if (!on_ || !first_ || iteration < *first_ + kWarmUp + kMeasured) return std::nullopt;
  on_ = false;
  const auto took = std::exchange(took_, {});
  const auto median = [&took](ActionKind kind) { return MiddleOf(took.at(kind)); };
  if (!took.contains(ActionKind::kForward) || !took.contains(ActionKind::kBackwardInput) ||
      !took.contains(ActionKind::kBackwardWeight)) {
    return std::nullopt;  // the plan has given it too little to do
  }
  return MeasuredCosts{.forward = median(ActionKind::kForward),
                       .backward_input = median(ActionKind::kBackwardInput),
                       .backward_weight = median(ActionKind::kBackwardWeight)};
}

}  // namespace recycle
