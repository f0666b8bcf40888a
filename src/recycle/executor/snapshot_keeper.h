// This worker's part in the job's snapshots: a copy of its own stage's state in memory every so
// many iterations, copies of other stages' for which it is told to, and going back to one.
//
//   keeper.Handle(transfer);             // control thread: Transfer, EndTransfer, SnapshotCounts
//   keeper.Take(optimizer_step, anew);   // training thread, after each own step
//   keeper.Restore(version, optimizer_step);
//
// Taking one is a copy from memory to memory, the training thread's only stall; threads of the
// transfers send and receive, within the rate limit of copies of state. The coordinator is told of
// each that is kept, and tells which set counts: what is kept of older ones goes then.
//
// Handle belongs to the control thread, everything else to the training thread.
// Source: "Snapshots" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_SNAPSHOT_KEEPER_H_
#define RECYCLE_EXECUTOR_SNAPSHOT_KEEPER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/executor/snapshot_receiver.h"
#include "recycle/executor/snapshot_store.h"
#include "recycle/executor/state_donor.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class SnapshotKeeper {
 public:
  // The references must outlive the object.
  SnapshotKeeper(const ExecutorOptions& options, std::shared_ptr<Device> device,
                 ControlLink& control, FaultInjector& injector);
  SnapshotKeeper(const SnapshotKeeper&) = delete;
  SnapshotKeeper& operator=(const SnapshotKeeper&) = delete;

  // `transfer` has a snapshot order.
  void Handle(const Transfer& transfer);
  void Handle(const EndTransfer& end);
  void Handle(const SnapshotCounts& counts);

  // Copies the state of `step` if one of its version is due. `anew`: it is, whatever the version,
  // for somebody has come who has none.
  void Take(OptimizerStep& step, bool anew);

  // Writes the numbers of the own stage's snapshot of `version` to `step`; returns the squared norm
  // of the gradient that made it, if that is known. Error: kNotFound: there is none; kDataLoss: it
  // is another stage's.
  StatusOr<std::optional<double>> Restore(int version, OptimizerStep& step);
  // Everybody has gone back: to the snapshot of `version`, and others are void; or, absent, to a
  // checkpoint, and all are.
  void StartOver(std::optional<int> version);

  std::vector<SnapshotHeld> held() const;

 private:
  struct Giver {
    SnapshotOrder order;
    std::unique_ptr<StateDonor> donor;
  };
  struct Taker {
    SnapshotOrder order;
    std::unique_ptr<SnapshotReceiver> receiver;
  };

  void OpenGiver(const Transfer& transfer);
  void OpenTaker(const Transfer& transfer);
  // With mutex_ held.
  void BeginGiver(std::int64_t id, Giver& giver, const std::string& joiner_end);
  void Keep(StageId stage, Snapshot snapshot);

  const ExecutorOptions& options_;
  const std::shared_ptr<Device> device_;
  ControlLink& control_;
  FaultInjector& injector_;

  mutable std::mutex mutex_;
  SnapshotStore store_;
  std::map<std::int64_t, Giver> givers_;  // by transfer, as the next
  std::map<std::int64_t, Taker> takers_;  // last: their threads use all of the above
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_SNAPSHOT_KEEPER_H_
