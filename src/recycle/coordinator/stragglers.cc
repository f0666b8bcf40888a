#include "recycle/coordinator/stragglers.h"

#include <algorithm>
#include <cmath>

namespace recycle {

std::optional<double> Stragglers::Score(WorkerId worker) const {
  std::vector<double> others;
  for (const WorkerId peer : roster_.Live()) {
    const double pace = roster_.At(peer).ns_per_tick;
    if (peer.stage == worker.stage && peer != worker && pace > 0) others.push_back(pace);
  }
  const double own = roster_.At(worker).ns_per_tick;
  if (others.empty() || own <= 0) return std::nullopt;
  const auto middle = others.begin() + std::ssize(others) / 2;
  std::nth_element(others.begin(), middle, others.end());
  return own / *middle;
}

std::optional<Stragglers::Change> Stragglers::Judge(WorkerId worker) {
  if (!factor_) return std::nullopt;
  const std::optional<double> score = Score(worker);
  const bool was_slow = slow_.contains(worker);
  const bool turns = score && (was_slow ? *score < (1.0 + *factor_) / 2 : *score >= *factor_);
  if (!turns) {
    turned_.erase(worker);
    return std::nullopt;
  }
  const std::int32_t version = roster_.At(worker).version;
  const std::int32_t since = turned_.try_emplace(worker, version).first->second;
  if (version < since + kIterations) return std::nullopt;
  turned_.erase(worker);
  const double rounded = std::round(*score * 10) / 10;
  if (was_slow) {
    slow_.erase(worker);
  } else {
    slow_[worker] = rounded;
  }
  return Change{.worker = worker, .score = rounded, .is_slow = !was_slow};
}

void Stragglers::Forget(WorkerId worker) {
  slow_.erase(worker);
  turned_.erase(worker);
}

std::vector<SlowWorker> Stragglers::Slow() const {
  std::vector<SlowWorker> slow;
  slow.reserve(slow_.size());
  for (const auto& [worker, score] : slow_) slow.push_back({.worker = worker, .factor = score});
  return slow;
}

}  // namespace recycle
