// Snapshots in the workers' memory: who keeps which stage's state of which version, over which
// transfers copies get to workers of other stages, which sets count, and to which version the job
// can go back without a disk.
//
// A set of version v counts when every live worker keeps its own stage's state of v, a live worker
// of another stage keeps a copy of each, and the results of the iterations up to v are known. Then
// everybody is told, and older ones may go. To go back to v it is enough that of every stage
// somebody keeps it: whoever lacks its own stage's is sent a copy first.
//
// What is kept is known from Hello and from each Ledger, which replace what was known of a worker,
// and from SnapshotHeld in between. Findings are handed over by TakeFindings. Not thread-safe; part
// of the coordinator's core.
// Source: "Snapshots" of docs/RECOVERY.md.
#ifndef RECYCLE_COORDINATOR_SNAPSHOT_SETS_H_
#define RECYCLE_COORDINATOR_SNAPSHOT_SETS_H_

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
#include "recycle/coordinator/snapshot_routes.h"
#include "recycle/coordinator/transfer_numbers.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct SnapshotOptions {
  bool on = false;
  int num_stages = 1;
  int num_hosts = 1;
};

class SnapshotSets {
 public:
  struct Findings {
    std::vector<SendTo> sends;
    std::vector<AnnounceSnapshot> news;
    std::vector<std::string> warnings;  // for people
  };

  // `roster` (only read) and `numbers` must outlive it.
  SnapshotSets(const SnapshotOptions& options, const Roster* roster, TransferNumbers* numbers)
      : options_(options), roster_(*roster), numbers_(*numbers) {}

  bool on() const { return options_.on; }

  // What `worker`, a member or a process that is to become one, keeps, all of it.
  void NoteAll(WorkerId worker, const std::vector<SnapshotHeld>& held, TimePoint now);
  void Receive(WorkerId from, const SnapshotHeld& message, TimePoint now);
  void Receive(WorkerId from, const TransferOpened& message);
  void Receive(WorkerId from, const TransferBroken& message);
  // The process is gone, and what it kept.
  void OnGone(WorkerId worker);

  // Makes transfers fit the live workers. Call it while training, as the next.
  void Route();
  // Looks whether a set counts now. `iterations_done`: results known.
  void Count(std::int32_t iterations_done, TimePoint now);

  // Is each stage's state of `version` kept by somebody?
  bool Suffices(std::int32_t version) const;
  // `version` cannot be sent to somebody who needs it: it is no choice any more.
  void GiveUp(std::int32_t version);
  // The newest version to go back to.
  std::optional<std::int32_t> Newest(std::int32_t iterations_done) const;
  // There is none: why, as the end of a sentence; "" when snapshots are off.
  std::string WhyNone() const;

  // Does the worker keep its own stage's state of `version`?
  bool Has(WorkerId worker, std::int32_t version) const;
  // Sees to it that the worker gets it. False: nobody can send it.
  bool Feed(WorkerId worker, std::int32_t version);
  // Everybody goes back: what is on its way is void.
  void EndTransfers();
  // It has turned out that the worker does not keep its own stage's state of `version`.
  void Forget(WorkerId worker, std::int32_t version);
  // Everybody has gone back to `version`: other snapshots are void, and from a checkpoint all.
  void StartOver(std::int32_t version, bool from_memory);

  Findings TakeFindings() { return std::exchange(findings_, Findings()); }

 private:
  using Copy = std::pair<StageId, std::int32_t>;  // stage, version
  struct Channel {
    SnapshotOrder order;
    WorkerId donor;
    WorkerId joiner;
    std::string donor_end;
    std::string joiner_end;
  };

  bool IsKept(StageId stage, std::int32_t version) const;
  bool IsKeptElsewhere(StageId stage, std::int32_t version) const;
  bool IsSet(std::int32_t version) const;
  // Of the first set that is given up since one has counted, people hear.
  void WarnOfGivenUp();
  std::vector<std::int32_t> Versions() const;  // descending
  void Open(const SnapshotOrder& order, WorkerId donor, WorkerId joiner);
  void End(std::map<std::int64_t, Channel>::iterator channel);
  // Links between the two have broken too often.
  bool IsGivenUp(WorkerId donor, WorkerId joiner) const;
  void Send(WorkerId to, CoordinatorMessage message);

  const SnapshotOptions options_;
  const Roster& roster_;
  TransferNumbers& numbers_;
  std::map<WorkerId, std::map<Copy, std::int64_t>> kept_;  // bytes
  std::map<std::int32_t, TimePoint> first_heard_;          // by version
  std::int32_t counted_ = 0;                               // version of the newest set that counts
  std::map<std::int64_t, Channel> channels_;               // by transfer
  std::map<std::pair<WorkerId, WorkerId>, int> breaks_;    // by donor and joiner
  SnapshotRoutes routes_;
  std::vector<WorkerId> routed_;  // the live workers that routes_ are for
  bool reroute_ = true;           // a channel has gone since
  bool has_warned_ = false;       // since a set has counted last
  Findings findings_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_SNAPSHOT_SETS_H_
