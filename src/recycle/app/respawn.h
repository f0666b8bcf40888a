// When an agent starts a dead worker anew: after a delay that doubles with every death of the
// place, until the place is parked. Who left on purpose (exit code 0) is not started again.
//
//   Respawns respawns(std::chrono::seconds(30));
//   Respawns::Verdict verdict = respawns.OnExit(worker, wait_status, now);
//   for (WorkerId worker : respawns.TakeDue(now)) Start(worker);
//
// Pure; not thread-safe.
#ifndef RECYCLE_APP_RESPAWN_H_
#define RECYCLE_APP_RESPAWN_H_

#include <map>
#include <optional>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"

namespace recycle {

class Respawns {
 public:
  static constexpr int kDeathsToPark = 5;

  // `delay`: after the first death; absent: nobody is started again.
  explicit Respawns(std::optional<Duration> delay) : delay_(delay) {}

  struct Verdict {
    std::optional<Duration> after;  // it is started again after so long
    bool parked = false;            // with this death: it never is
    int deaths = 0;
  };
  Verdict OnExit(WorkerId worker, int wait_status, TimePoint now);
  // It is started at `due`, whatever becomes of the rule above.
  void StartAt(WorkerId worker, TimePoint due) { due_[worker] = due; }

  std::optional<TimePoint> NextDeadline() const;
  // Those to be started now, ascending; each is returned once.
  std::vector<WorkerId> TakeDue(TimePoint now);

 private:
  const std::optional<Duration> delay_;
  std::map<WorkerId, int> deaths_;
  std::map<WorkerId, TimePoint> due_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_RESPAWN_H_
