#include "recycle/coordinator/roster.h"

#include <algorithm>

namespace recycle {

Roster::Roster(const Parallelism& parallel) : num_stages_(parallel.pipeline) {
  for (int pipeline = 0; pipeline < parallel.data; ++pipeline) {
    for (int stage = 0; stage < parallel.pipeline; ++stage) {
      places_[WorkerId{PipelineId(pipeline), StageId(stage)}] = Place();
    }
  }
}

bool Roster::IsLive(WorkerId worker) const {
  return Contains(worker) && At(worker).presence == Place::Presence::kLive;
}

bool Roster::IsLost(WorkerId worker) const {
  return Contains(worker) && At(worker).presence == Place::Presence::kLost;
}

std::vector<WorkerId> Roster::Select(Place::Presence presence) const {
  std::vector<WorkerId> workers;
  for (const auto& [worker, place] : places_) {
    if (place.presence == presence) workers.push_back(worker);
  }
  return workers;
}

std::vector<WorkerId> Roster::Expected() const { return Select(Place::Presence::kExpected); }
std::vector<WorkerId> Roster::Live() const { return Select(Place::Presence::kLive); }
std::vector<WorkerId> Roster::Lost() const { return Select(Place::Presence::kLost); }

int Roster::NumLeft(StageId stage) const {
  return static_cast<int>(std::count_if(places_.begin(), places_.end(), [&](const auto& entry) {
    return entry.first.stage == stage && entry.second.presence != Place::Presence::kLost;
  }));
}

bool Roster::IsLastOfStage(WorkerId worker) const {
  return !IsLost(worker) && NumLeft(worker.stage) == 1;
}

std::optional<StageId> Roster::LostStage() const {
  for (int stage = 0; stage < num_stages_; ++stage) {
    if (NumLeft(StageId(stage)) == 0) return StageId(stage);
  }
  return std::nullopt;
}

double Roster::SlowestPace() const {
  double slowest = 0;
  for (const auto& [worker, place] : places_) {
    if (place.presence == Place::Presence::kLive) slowest = std::max(slowest, place.ns_per_tick);
  }
  return slowest;
}

std::map<int, std::int64_t> Roster::PeakBytes() const {
  std::map<int, std::int64_t> peaks;
  for (const auto& [worker, place] : places_) {
    if (place.presence != Place::Presence::kLive) continue;
    std::int64_t& peak = peaks[worker.stage.value()];
    peak = std::max(peak, place.peak_bytes);
  }
  return peaks;
}

}  // namespace recycle
