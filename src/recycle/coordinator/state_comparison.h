// Do the peers of a stage have the same state? All of them make the same steps on the same numbers,
// so whoever differs has computed or kept something wrong without any error: silent corruption. The
// hash that more than half of the stage's live workers share is right.
//
// Not thread-safe; part of the coordinator's core.
// Source: "Silent corruption" of docs/RECOVERY.md.
#ifndef RECYCLE_COORDINATOR_STATE_COMPARISON_H_
#define RECYCLE_COORDINATOR_STATE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/coordinator/roster.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class StateComparison {
 public:
  struct Difference {
    std::vector<WorkerId> right;  // ascending; empty: no majority, and `wrong` has them all
    std::vector<WorkerId> wrong;
  };

  // `roster` (only read) must outlive it.
  explicit StateComparison(const Roster* roster) : roster_(*roster) {}

  // Judges as soon as every live worker of the stage has told its hash of that version.
  std::optional<Difference> Receive(WorkerId from, const StateHash& message);

  // The newest version at which all of the stage were equal.
  std::optional<std::int32_t> LastEqual(StageId stage) const;

  // Everybody goes back to an older version.
  void StartOver();

 private:
  using Hashes = std::map<WorkerId, std::uint64_t>;

  const Roster& roster_;
  std::map<std::pair<StageId, std::int32_t>, Hashes> told_;  // by version
  std::map<StageId, std::int32_t> equal_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_STATE_COMPARISON_H_
