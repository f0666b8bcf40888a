#include "recycle/coordinator/standstill.h"

#include <algorithm>
#include <numeric>

namespace recycle {

void Standstill::OnHeartbeat(WorkerId worker, std::int64_t actions_done, TimePoint now) {
  const auto [known, is_new] = actions_done_.try_emplace(worker, actions_done);
  if (is_new || known->second == actions_done) return;
  known->second = actions_done;
  progress_ = now;
}

void Standstill::OnIteration(TimePoint now) {
  progress_ = now;
  if (iteration_ended_) iterations_.push_back(now - *iteration_ended_);
  if (iterations_.size() > kRemembered) iterations_.pop_front();
  iteration_ended_ = now;
}

void Standstill::OnResumed(TimePoint now) {
  progress_ = now;
  iteration_ended_.reset();
}

void Standstill::ForgiveGap(Duration gap) {
  progress_ += gap;
  if (iteration_ended_) *iteration_ended_ += gap;
}

std::optional<Duration> Standstill::TakeFinding(TimePoint now) {
  if (iterations_.empty()) return std::nullopt;
  const Duration mean = std::accumulate(iterations_.begin(), iterations_.end(), Duration{}) /
                        static_cast<std::int64_t>(iterations_.size());
  const Duration since = now - progress_;
  if (since < std::max(least_, kIterations * mean)) return std::nullopt;
  progress_ = now;
  return since;
}

}  // namespace recycle
