// Going back, to a checkpoint because the job resumes from one, or because a stage has no live
// worker left to a snapshot in memory or to a checkpoint: to which version, whether there are
// processes for every stage, and until when the next Prepare has to say so.
//
//   nothing -> choosing -> gathering -> due -> nothing
//
// Choosing (checkpoints): the answer to ChooseCheckpoint is awaited. Gathering: the places of the
// stages without workers are started; once all of them have said hello, or at the deadline, the job
// goes on with those that are there. From memory everybody also has to have its stage's snapshot.
// Due: every Prepare restores until all have answered one.
//
// Not thread-safe; part of the coordinator's core.
// Source: "When a whole stage is gone" of docs/RECOVERY.md.
#ifndef RECYCLE_COORDINATOR_RESTORATION_H_
#define RECYCLE_COORDINATOR_RESTORATION_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/coordinator/rejoins.h"
#include "recycle/coordinator/roster.h"
#include "recycle/coordinator/snapshot_sets.h"

namespace recycle {

class Restoration {
 public:
  // `version`: due from the start, for a job that resumes.
  explicit Restoration(std::optional<std::int32_t> version, bool from_memory = false)
      : version_(version), from_memory_(from_memory) {}

  // `reason`: a sentence, what is lost.
  void Choose(std::string reason);
  void OnChosen(std::int32_t version, bool from_memory, TimePoint deadline);
  void Finish() { version_.reset(); }

  const std::string& reason() const { return reason_; }
  // The checkpoint's or snapshot's, from OnChosen on.
  std::optional<std::int32_t> version() const { return version_; }
  bool from_memory() const { return version_.has_value() && from_memory_; }
  // While gathering.
  std::optional<TimePoint> deadline() const { return deadline_; }

  struct Gathered {
    std::vector<WorkerId> start;     // places to be started, each once
    bool done = false;               // nobody is waited for any more
    std::optional<StageId> missing;  // a stage for which nobody has come, when it is done
  };
  // Looks who is there. Once it is done there is no deadline any more.
  Gathered Gather(const Roster& roster, const Rejoins& rejoins, const SnapshotSets& snapshots,
                  TimePoint now);

 private:
  std::optional<std::int32_t> version_;
  bool from_memory_ = false;
  std::optional<TimePoint> deadline_;
  std::string reason_;
  std::set<WorkerId> started_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_RESTORATION_H_
