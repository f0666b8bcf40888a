// Which places have a worker: counted by stage and by pipeline.
//
// Not thread-safe.
#ifndef RECYCLE_SIMULATOR_LIVE_PLACES_H_
#define RECYCLE_SIMULATOR_LIVE_PLACES_H_

#include <algorithm>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/plan/plan.h"

namespace recycle {

class LivePlaces {
 public:
  // Every place is live.
  explicit LivePlaces(const Parallelism& parallel)
      : num_pipelines_(parallel.data),
        num_stages_(parallel.pipeline),
        live_(static_cast<std::size_t>(parallel.num_workers()), true),
        failed_per_stage_(static_cast<std::size_t>(parallel.pipeline), 0),
        live_per_pipeline_(static_cast<std::size_t>(parallel.data), parallel.pipeline),
        count_(parallel.num_workers()) {}

  int num_pipelines() const { return num_pipelines_; }
  int num_stages() const { return num_stages_; }
  int num_places() const { return num_pipelines_ * num_stages_; }
  int count() const { return count_; }
  bool IsLive(int place) const { return live_[static_cast<std::size_t>(place)]; }
  int StageOf(int place) const { return place % num_stages_; }
  int PipelineOf(int place) const { return place / num_stages_; }
  const std::vector<int>& failed_per_stage() const { return failed_per_stage_; }
  int LiveAt(int stage) const {
    return num_pipelines_ - failed_per_stage_[static_cast<std::size_t>(stage)];
  }
  bool IsComplete(int pipeline) const {
    return live_per_pipeline_[static_cast<std::size_t>(pipeline)] == num_stages_;
  }
  int CompletePipelines() const {
    return static_cast<int>(
        std::count(live_per_pipeline_.begin(), live_per_pipeline_.end(), num_stages_));
  }
  bool HasEmptyStage() const {
    return std::find(failed_per_stage_.begin(), failed_per_stage_.end(), num_pipelines_) !=
           failed_per_stage_.end();
  }

  void Set(int place, bool live) {
    if (IsLive(place) == live) return;
    live_[static_cast<std::size_t>(place)] = live;
    const int change = live ? 1 : -1;
    count_ += change;
    failed_per_stage_[static_cast<std::size_t>(StageOf(place))] -= change;
    live_per_pipeline_[static_cast<std::size_t>(PipelineOf(place))] += change;
  }

  // The dead places, ascending.
  std::vector<WorkerId> Failed() const {
    std::vector<WorkerId> failed;
    for (int place = 0; place < num_places(); ++place) {
      if (IsLive(place)) continue;
      failed.push_back(WorkerId{PipelineId(PipelineOf(place)), StageId(StageOf(place))});
    }
    return failed;
  }

 private:
  int num_pipelines_;
  int num_stages_;
  std::vector<bool> live_;  // by place
  std::vector<int> failed_per_stage_;
  std::vector<int> live_per_pipeline_;
  int count_;
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_LIVE_PLACES_H_
