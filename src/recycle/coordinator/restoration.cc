#include "recycle/coordinator/restoration.h"

#include <map>
#include <utility>

namespace recycle {

void Restoration::Choose(std::string reason) {
  reason_ = std::move(reason);
  version_.reset();
  deadline_.reset();
  started_.clear();
}

void Restoration::OnChosen(std::int32_t version, bool from_memory, TimePoint deadline) {
  version_ = version;
  from_memory_ = from_memory;
  deadline_ = deadline;
}

Restoration::Gathered Restoration::Gather(const Roster& roster, const Rejoins& rejoins,
                                          const SnapshotSets& snapshots, TimePoint now) {
  Gathered gathered;
  bool waiting = false;  // for processes
  bool copying = false;  // to processes that are there
  const auto is_ready = [&](WorkerId worker) {
    return !from_memory_ || snapshots.Has(worker, *version_);
  };
  for (const WorkerId worker : roster.Live()) copying = copying || !is_ready(worker);
  std::map<StageId, int> present;  // by stage without members
  for (const WorkerId worker : roster.Lost()) {
    if (roster.NumLeft(worker.stage) > 0) continue;
    int& count = present[worker.stage];
    if (rejoins.IsJoiner(worker)) {
      ++count;
      copying = copying || !is_ready(worker);
    } else {
      waiting = true;
      if (started_.insert(worker).second) gathered.start.push_back(worker);
    }
  }
  if (copying || (waiting && now < *deadline_)) return gathered;
  gathered.done = true;
  deadline_.reset();
  for (const auto& [stage, count] : present) {
    if (count == 0) gathered.missing = stage;
  }
  return gathered;
}

}  // namespace recycle
