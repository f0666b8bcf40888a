// Role changes: a live worker takes a vacant place of another stage, which has lost more workers
// (failure normalization while the job runs; section "Failure Normalization" of the paper).
//
// A change is a leave and a join by one process. The worker finishes its iteration and leaves its
// place for good; it says hello for the vacant one, copies the state of a peer there like any other
// joiner, and is admitted. One change at a time, and at most one for each time that a place falls
// vacant.
//
// Who may move where:
//  - the place has been vacant for 5 failure timeouts and nobody is on the way to it: agents do not
//    start its worker anew, or have parked it;
//  - the worker's stage has at least two live workers more than the place's, so every change evens
//    failures out and none is ever taken back;
//  - both are pipelines of one host, so whose process a place is stays known from its pipeline.
//
// When it is worth it: gain > cost, in time (JudgeRoleChange). How long the place would stay vacant
// nobody knows: it is expected to stay so for as long again as it has been, at most until the end
// of the job. (So the time that is lost by waiting is at most what the change costs.)
//   gain = that horizon x (1 - period after / period now)
//   cost = time of the copy x (1 - period now / period meanwhile), both places being vacant then,
//          + two generations, each as long as the last one
//
// A coordinator that comes after this one knows from its record who is between two places.
//
// Not thread-safe; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_ROLE_CHANGES_H_
#define RECYCLE_COORDINATOR_ROLE_CHANGES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/events.h"
#include "recycle/coordinator/roster.h"
#include "recycle/plan/plan.h"

namespace recycle {

// What a change is judged by.
struct RoleChangeFigures {
  Ticks period_now = 0;  // of an iteration, as planned, above 0 like the next two
  Ticks period_meanwhile = 0;
  Ticks period_after = 0;
  Duration vacant{};   // for how long the place has been
  Duration left{};     // until the end of the job, at its pace of now
  Duration copying{};  // how long the copy of the stage's state is expected to take
  Duration regroup{};  // how long the last generation took
};

struct RoleChangeVerdict {
  Duration gain{};
  Duration cost{};
  bool pays = false;
  std::string reason;  // a sentence with the arithmetic
};
RoleChangeVerdict JudgeRoleChange(const RoleChangeFigures& figures);

class RoleChanges {
 public:
  struct Options {
    int hosts = 1;          // pipelines are dealt to them in turn
    bool respawns = false;  // agents start dead workers anew
    Duration failure_timeout{};
    std::optional<double> copy_bytes_per_second;  // absent: copies have no limit
  };
  // A plan for the given dead places.
  using PlanFunction = std::function<StatusOr<Plan>(const std::vector<WorkerId>& failed)>;

  // `roster` (only read) must outlive it.
  RoleChanges(const Options& options, const Roster* roster) : options_(options), roster_(*roster) {}

  // Everybody has resumed a generation, which took `regroup`.
  void OnResumed(TimePoint now, Duration regroup, std::int32_t iterations_done);
  // The place's agent has given it up.
  void OnParked(WorkerId place) { parked_.insert(place); }

  // The change to begin now, if there is one that pays. While everybody trains and nobody comes
  // back. `iterations`: of the job. Calls `plan` at most three times a generation.
  std::optional<AnnounceRoleChange> Begin(const PlanFunction& plan, std::int32_t iterations_done,
                                          std::int32_t iterations, TimePoint now);
  // The worker has finished its iteration and wants to leave for `next`. The change, if it is to go
  // on: much can have happened since it began.
  std::optional<AnnounceRoleChange> OnDeparting(WorkerId worker, std::optional<WorkerId> next);

  // The worker counts as lost.
  void OnLost(WorkerId worker);
  // A process has said hello for the vacant place.
  void OnHello(WorkerId place);

  // Those who have left a place for another one and have not said hello for it: for the record.
  const std::map<WorkerId, WorkerId>& moving() const { return moving_; }
  // Of those: where `worker` goes.
  std::optional<WorkerId> NextPlaceOf(WorkerId worker) const;
  // From the record of the coordinator before.
  void TakeOver(const std::map<WorkerId, WorkerId>& moving) { moving_ = moving; }

 private:
  // What is considered in this generation.
  struct Candidate {
    WorkerId from;
    WorkerId to;
    Ticks period_now = 0;
    Ticks period_meanwhile = 0;
    Ticks period_after = 0;
    Duration copying{};
  };

  bool IsDeserted(WorkerId place) const;
  // Does a worker of `from`'s stage even the failures out by taking `to`?
  bool EvensOut(WorkerId from, WorkerId to) const;
  std::optional<WorkerId> BestWorkerFor(WorkerId place) const;
  std::optional<Candidate> FindCandidate(TimePoint now) const;
  // False: it cannot be planned, or makes nothing faster.
  bool AddPeriods(Candidate& candidate, const PlanFunction& plan) const;

  const Options options_;
  const Roster& roster_;
  std::set<WorkerId> parked_;
  std::map<WorkerId, TimePoint> vacant_since_;
  std::set<WorkerId> tried_;  // vacant places to which a worker was sent

  // Since everybody resumed last.
  TimePoint resumed_;
  Duration regroup_{};
  std::int32_t resumed_at_ = 0;         // iterations done
  std::optional<Candidate> candidate_;  // planned
  bool has_planned_ = false;

  std::optional<AnnounceRoleChange> leaving_;  // asked to, and still a member
  std::map<WorkerId, WorkerId> moving_;
  TimePoint begun_;  // the last change
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_ROLE_CHANGES_H_
