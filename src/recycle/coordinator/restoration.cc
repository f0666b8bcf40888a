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

void Restoration::OnChosen(std::int32_t version, TimePoint deadline) {
  version_ = version;
  deadline_ = deadline;
}

Restoration::Gathered Restoration::Gather(const Roster& roster, const Rejoins& rejoins,
                                          TimePoint now) {
  Gathered gathered;
  bool waiting = false;
  std::map<StageId, int> present;  // by stage without members
  for (const WorkerId worker : roster.Lost()) {
    if (roster.NumLeft(worker.stage) > 0) continue;
    int& count = present[worker.stage];
    if (rejoins.IsJoiner(worker)) {
      ++count;
    } else {
      waiting = true;
      if (started_.insert(worker).second) gathered.start.push_back(worker);
    }
  }
  if (waiting && now < *deadline_) return gathered;
  gathered.done = true;
  deadline_.reset();
  for (const auto& [stage, count] : present) {
    if (count == 0) gathered.missing = stage;
  }
  return gathered;
}

}  // namespace recycle
