// Workers that compute more slowly than their peers: their plan gives them fewer micro-batches.
//
// Heartbeats tell each worker's pace: how long what the plan counts as a tick takes it. A worker's
// score is its pace over the median of its stage's other live workers. It is slow once the score
// has been at least the factor for kIterations iterations, and is so no more once it has been below
// half the way from 1 to the factor for as long.
//
// Not thread-safe; part of the coordinator's core.
// Source: "Slow workers" of docs/RECOVERY.md.
#ifndef RECYCLE_COORDINATOR_STRAGGLERS_H_
#define RECYCLE_COORDINATOR_STRAGGLERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/coordinator/roster.h"
#include "recycle/plan/plan.h"

namespace recycle {

class Stragglers {
 public:
  static constexpr std::int32_t kIterations = 3;

  struct Change {
    WorkerId worker;
    double score = 1.0;
    bool is_slow = false;
  };

  // `factor`: above 1; absent: nobody is ever slow. `roster` (only read) must outlive it.
  Stragglers(std::optional<double> factor, const Roster* roster)
      : factor_(factor), roster_(*roster) {}

  // A live worker has told its version and pace.
  std::optional<Change> Judge(WorkerId worker);
  // The process is gone.
  void Forget(WorkerId worker);

  // Ascending, and how many times longer their actions take.
  std::vector<SlowWorker> Slow() const;

 private:
  // Absent: there is nobody to compare with, or a pace is not known yet.
  std::optional<double> Score(WorkerId worker) const;

  const std::optional<double> factor_;
  const Roster& roster_;
  std::map<WorkerId, double> slow_;          // and the score
  std::map<WorkerId, std::int32_t> turned_;  // the version since which the score says otherwise
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_STRAGGLERS_H_
