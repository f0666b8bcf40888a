// The snapshots that this worker keeps: of its own stage, and of stages it holds a copy for. At
// most two of a stage: the newest that counts (every stage has it), and a newer one that does not
// yet.
//
//   store.Begin(stage, version);          // an unfinished older one goes: it can count no more
//   store.Put(stage, version, parameters);
//   store.Count(version);                 // older ones go
//
// A plain value; not thread-safe.
// Source: "Snapshots" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_SNAPSHOT_STORE_H_
#define RECYCLE_EXECUTOR_SNAPSHOT_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/comm/frame.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct Snapshot {
  int version = 0;
  std::optional<double> squared_norm = std::nullopt;  // of the last step's gradient, if known
  std::vector<SharedBytes> parameters;                // each with its moments, in the stage's order
};

class SnapshotStore {
 public:
  // A snapshot of `version` is to come: makes room.
  void Begin(StageId stage, int version);
  void Put(StageId stage, Snapshot snapshot);
  // Everybody's snapshots of `version` count.
  void Count(int version);
  // Everybody goes back to `version`: newer ones are void, and so are older ones. Absent: all are.
  void KeepOnly(std::optional<int> version);

  // nullptr: there is none.
  const Snapshot* Find(StageId stage, int version) const;
  const Snapshot* Newest(StageId stage) const;
  std::vector<SnapshotHeld> Held() const;

 private:
  int counted_ = 0;
  std::map<std::pair<StageId, int>, Snapshot> snapshots_;  // by stage and version
};

SnapshotHeld Describe(StageId stage, const Snapshot& snapshot);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_SNAPSHOT_STORE_H_
