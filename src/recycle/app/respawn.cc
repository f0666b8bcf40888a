#include "recycle/app/respawn.h"

#include <algorithm>

#include "recycle/base/process_end.h"

namespace recycle {

Respawns::Verdict Respawns::OnExit(WorkerId worker, int wait_status, TimePoint now) {
  const ProcessEnd end = DecodeWaitStatus(wait_status);
  if (!delay_ || (!end.by_signal && end.number == 0)) return {};
  const int deaths = ++deaths_[worker];
  if (deaths >= kDeathsToPark) {
    return {.after = std::nullopt, .parked = deaths == kDeathsToPark, .deaths = deaths};
  }
  const Duration after = *delay_ * (1 << (deaths - 1));
  due_[worker] = now + after;
  return {.after = after, .parked = false, .deaths = deaths};
}

std::optional<TimePoint> Respawns::NextDeadline() const {
  const auto first = std::min_element(
      due_.begin(), due_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (first == due_.end()) return std::nullopt;
  return first->second;
}

std::vector<WorkerId> Respawns::TakeDue(TimePoint now) {
  std::vector<WorkerId> workers;
  for (const auto& [worker, due] : due_) {
    if (due <= now) workers.push_back(worker);
  }
  for (const WorkerId worker : workers) due_.erase(worker);
  return workers;
}

}  // namespace recycle
