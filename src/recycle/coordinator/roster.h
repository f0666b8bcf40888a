// Every place of the job: who holds it, whether it lives, and what is last known about it.
//
// Not thread-safe; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_ROSTER_H_
#define RECYCLE_COORDINATOR_ROSTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/coordinator/events.h"
#include "recycle/plan/plan.h"

namespace recycle {

// A worker that counts as lost, and how that came about, for people: "its process ended by signal
// 9".
struct Loss {
  LostWorker lost;
  std::string how;
};

// An action that a worker runs with all its inputs there, by its heartbeats.
struct RunningAction {
  std::int64_t actions_done = 0;  // before it
  TimePoint since;                // it was heard of first
  bool warned = false;
};

struct Place {
  enum class Presence : std::uint8_t { kExpected, kLive, kLost };
  Presence presence = Presence::kExpected;
  std::int32_t pid = 0;
  bool stream_open = false;
  TimePoint last_heard;                // live only
  std::optional<TimePoint> closed_at;  // when its stream ended
  std::int32_t version = 0;            // highest it has told of
  std::int64_t peak_bytes = 0;
  std::optional<RunningAction> running;
  double ns_per_tick = 0;  // its pace; 0: not known yet
  std::string how_lost;    // lost only
  bool fenced = false;     // lost, and that is stored: it may be told
  bool left = false;       // lost by its own leave: told to Leave, not fenced
};

class Roster {
 public:
  explicit Roster(const Parallelism& parallel);

  bool Contains(WorkerId worker) const { return places_.contains(worker); }
  // The worker must be contained.
  Place& At(WorkerId worker) { return places_.at(worker); }
  const Place& At(WorkerId worker) const { return places_.at(worker); }
  bool IsLive(WorkerId worker) const;
  bool IsLost(WorkerId worker) const;

  // Ascending by (pipeline, stage).
  std::vector<WorkerId> Expected() const;
  std::vector<WorkerId> Live() const;
  std::vector<WorkerId> Lost() const;

  // Workers of the stage that are not lost (those still expected count).
  int NumLeft(StageId stage) const;
  // Is `worker` the only one of its stage that is not lost?
  bool IsLastOfStage(WorkerId worker) const;
  // A stage of which every worker is lost, if there is one.
  std::optional<StageId> LostStage() const;

  // The pace of the slowest live worker; 0: nobody's is known.
  double SlowestPace() const;
  // Largest peak memory over the live workers of each stage.
  std::map<int, std::int64_t> PeakBytes() const;

 private:
  std::vector<WorkerId> Select(Place::Presence presence) const;

  const int num_stages_;
  std::map<WorkerId, Place> places_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_ROSTER_H_
