// Changes of membership, by how far they have been taken: not in a record yet, not in a Prepare
// yet, not in a Resume yet, not resumed from by everybody yet. A later change may undo an earlier
// one: a link to a worker that is lost since need not be made anew.
//
//   changes.Lose(loss); changes.BreakLink(link);
//   if (changes.pending()) record = changes.TakeRecord(generation, roster, rejoins.Admitted());
//
// Not thread-safe; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_MEMBERSHIP_CHANGES_H_
#define RECYCLE_COORDINATOR_MEMBERSHIP_CHANGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/coordinator/detection.h"
#include "recycle/coordinator/events.h"
#include "recycle/coordinator/roster.h"

namespace recycle {

class MembershipChanges {
 public:
  void Lose(Loss loss);
  void BreakLink(const Link& link);  // both ends live
  // Nobody has got on for `since`: `links`, all there are, are made anew.
  void EndStandstill(const std::vector<Link>& links, Duration since);
  void Admit(WorkerId worker);  // it is back
  // It was admitted, and is no member any more. `why`: for people, "begins its copy anew".
  void Withdraw(WorkerId worker, const std::string& why);
  // Asked to leave, and then not let go. `why`: for people.
  void Stay(WorkerId worker, const std::string& why);
  void Reconnect(WorkerId worker);                              // its control stream was made anew
  void Rebalance(WorkerId worker, double score, bool is_slow);  // of its peers' pace
  void Replan(double deviation);       // costs were that far off: everybody gets another plan
  void Amend(const Verdict& verdict);  // a step that stages have made is another
  void Redo(const Quantum& quantum);   // a stage makes its sums again
  void Settle(AnnounceRejoin news);    // it has told its ledger, and is like any other
  // Another coordinator led before. `lost`: every place that `record` does not list; `unplanned`:
  // those of them whose share the last that everybody resumed with still had.
  void TakeOver(const GenerationRecord& record, std::vector<WorkerId> lost,
                std::vector<WorkerId> unplanned);

  // Is there anything that is in no record yet?
  bool pending() const { return pending_; }

  // The record of a generation with these changes. `returning` and the rest: as in the record.
  GenerationRecord TakeRecord(Generation generation, const Roster& roster,
                              std::map<WorkerId, WorkerId> returning,
                              std::optional<std::int32_t> restore, bool from_memory);

  // Lost, and no Prepare has said so.
  const std::vector<WorkerId>& unprepared_losses() const { return unprepared_losses_; }
  // The same and those withdrawn, for a Prepare.
  std::vector<WorkerId> TakeUnprepared();
  std::vector<WorkerId> TakeUnplanned() { return std::exchange(unplanned_losses_, {}); }

  // To be made anew with the next Prepare.
  const std::vector<Link>& links() const { return links_; }
  bool has_rejoins() const { return !rejoins_.empty(); }
  // Everybody has resumed: what is to be announced.
  std::vector<AnnounceRejoin> TakeRejoins() { return std::exchange(rejoins_, {}); }
  std::vector<Link> TakeLinks() {
    links_.clear();
    return std::exchange(broken_links_, {});
  }

 private:
  std::string Reason(const Roster& roster, std::optional<std::int32_t> restore,
                     bool from_memory) const;

  bool pending_ = false;
  bool new_leader_ = false;
  // Not in a record yet.
  std::vector<Loss> unrecorded_losses_;
  std::vector<Link> unrecorded_links_;
  std::optional<Duration> unrecorded_standstill_;
  std::vector<WorkerId> unrecorded_rejoins_;
  std::map<WorkerId, std::string> unrecorded_stays_;        // and why
  std::map<WorkerId, std::string> unrecorded_withdrawals_;  // and why
  std::set<WorkerId> unrecorded_reconnects_;
  std::vector<std::string> unrecorded_plans_;  // why there are others: reasons
  std::optional<Verdict> unrecorded_amend_;
  std::optional<Quantum> unrecorded_redo_;
  // Not in a Prepare yet.
  std::vector<WorkerId> unprepared_losses_;
  std::vector<WorkerId> unprepared_withdrawals_;
  // Not in a Resume yet.
  std::vector<WorkerId> unplanned_losses_;
  // Not everybody has resumed with it yet.
  std::vector<Link> links_;         // to be made anew
  std::vector<Link> broken_links_;  // those of them that had broken
  std::vector<AnnounceRejoin> rejoins_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_MEMBERSHIP_CHANGES_H_
