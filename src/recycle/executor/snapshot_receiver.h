// The receiving side of a transfer of snapshots: puts together what a StateDonor gives, one
// snapshot after the other, in a thread of its own.
//
//   SnapshotReceiver receiver(device, transfer, events);
//   Publish(receiver.address());
//   receiver.Begin(donor_end);
//
// Not thread-safe; belongs to one thread.
// Source: "Snapshots" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_SNAPSHOT_RECEIVER_H_
#define RECYCLE_EXECUTOR_SNAPSHOT_RECEIVER_H_

#include <functional>
#include <memory>
#include <string>

#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/executor/snapshot_store.h"
#include "recycle/executor/state_receiver.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class SnapshotReceiver {
 public:
  // Called in the transfer's thread.
  struct Events {
    std::function<void(int version)> begins;
    std::function<void(Snapshot snapshot)> complete;
    std::function<void(const std::string& error)> broken;  // once, the last
  };

  SnapshotReceiver(const std::shared_ptr<Device>& device, const Transfer& transfer, Events events);

  // This end's, for the donor.
  const std::string& address() const { return receiver_.address(); }

  // Connects to the donor's end, and receives from then on. Once.
  void Begin(const std::string& donor_end);

 private:
  Status Receive();
  Status Add(StateRecord record);

  const Events events_;
  Snapshot snapshot_;  // what has come of it
  StateReceiver receiver_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_SNAPSHOT_RECEIVER_H_
