// Places that come back: from a new process's Hello to its ledger as a member.
//
// A joiner is no member. It gets a donor, the live peer of its stage with the fewest copies (of
// equals, the least pipeline), and follows it in the background; nobody waits. Once it has caught
// up it is admitted: it becomes a member in a generation of its own, in which it takes over the
// donor's version. From its ledger on it is a worker like any other.
//
//   waiting -> opening -> copying -> caught up -> admitted -> settled (forgotten here)
//
// The donor is lost, or the link between them breaks: the joiner starts over with whoever is the
// donor then. If it was admitted already, and has told nothing yet, it is withdrawn: no member
// again.
//
// Findings are handed over by TakeFindings. Not thread-safe; part of the coordinator's core.
// Source: section 3.4 of the protocol in docs/RECOVERY.md ("Coming back").
#ifndef RECYCLE_COORDINATOR_REJOINS_H_
#define RECYCLE_COORDINATOR_REJOINS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/coordinator/events.h"
#include "recycle/coordinator/roster.h"
#include "recycle/coordinator/transfer_numbers.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class Rejoins {
 public:
  struct Findings {
    std::vector<SendTo> sends;
    std::vector<AnnounceRejoin> news;
    std::vector<WorkerId> withdrawn;  // were admitted, and are no members any more
  };

  // `roster` (only read) and `numbers` must outlive it.
  Rejoins(const Roster* roster, TransferNumbers* numbers, Duration failure_timeout)
      : roster_(*roster), numbers_(*numbers), failure_timeout_(failure_timeout) {}

  // Is the process that holds this lost place a joiner?
  bool IsJoiner(WorkerId worker) const;
  std::vector<WorkerId> Joiners() const;  // ascending

  // Those who are members and have not told their ledger yet, with their donors.
  std::map<WorkerId, WorkerId> Admitted() const;

  // A new process has said hello for the lost place `worker`.
  void Add(WorkerId worker, TimePoint now);
  // What a joiner says.
  void OnJoinerMessage(WorkerId joiner, const ExecutorMessage& message, TimePoint now);
  // What members say about copies.
  void Receive(WorkerId from, const TransferOpened& message);
  void Receive(WorkerId from, const TransferBroken& message);
  // The joiner's process is gone: by waitpid, its closed stream, or its agent's end.
  void OnGone(WorkerId joiner, const std::string& how);
  // Members that count as lost: donors, or those that were being admitted.
  void OnLost(WorkerId worker);
  // Silent joiners.
  void OnTime(TimePoint now);
  // The coordinator itself did not run for `gap`.
  void ForgiveGap(Duration gap);
  std::optional<TimePoint> NextDeadline() const;

  // Gives donors to those who wait. Call it while training.
  void AssignDonors();
  // Those that have caught up: they are members from now on.
  std::vector<WorkerId> Admit();
  // Everybody, whatever it has copied, and those that were being admitted: their copies end, and
  // they are forgotten here. Returns those that are no members yet.
  std::vector<WorkerId> TakeAll();
  // Everybody goes back, and these joiners have their state already: they are forgotten here, and
  // the copies of all others begin anew.
  void TakeOnly(const std::vector<WorkerId>& workers);
  // An admitted worker's ledger is here. Returns what is to be announced once all have resumed.
  std::optional<AnnounceRejoin> Settle(WorkerId worker);

  Findings TakeFindings() { return std::exchange(findings_, Findings()); }

 private:
  enum class State : std::uint8_t { kWaiting, kOpening, kCopying, kCaughtUp, kAdmitted };
  struct Joiner {
    State state = State::kWaiting;
    TimePoint last_heard;
    int broken_links = 0;
    // From kOpening on:
    WorkerId donor;
    std::int64_t transfer = 0;
    std::string donor_end;
    std::string joiner_end;
    std::int64_t bytes = 0;  // from kCaughtUp on, as the next
    Duration copy_time{};
  };
  using Entry = std::map<WorkerId, Joiner>::iterator;

  std::optional<WorkerId> ChooseDonor(WorkerId joiner) const;
  Entry FindTransfer(std::int64_t transfer);
  void OnCaughtUp(WorkerId worker, const CaughtUp& message);
  void EndTransferOf(Entry entry);
  void StartOver(Entry entry);
  void Abandon(Entry entry, const std::string& why);
  void Refuse(Entry entry, const std::string& why);
  void Send(WorkerId to, CoordinatorMessage message);

  const Roster& roster_;
  TransferNumbers& numbers_;
  const Duration failure_timeout_;
  std::map<WorkerId, Joiner> joiners_;
  Findings findings_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_REJOINS_H_
