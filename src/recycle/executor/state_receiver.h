// The receiving end of a transfer: a link that only its donor has, a thread of its own, and the
// records of a state, put together from the link's frames.
//
//   StateReceiver receiver(device, transfer);
//   Publish(receiver.address());
//   receiver.Begin(donor_end, [&](const Status& connected) { ... receiver.Take(count) ... });
//
// Let it be the last member of whoever owns it: its destructor waits for the thread, which may
// use the members before. Belongs to one thread but for Take, which is for its own.
// Source: "Coming back" and "Snapshots" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_STATE_RECEIVER_H_
#define RECYCLE_EXECUTOR_STATE_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/comm/inbox.h"
#include "recycle/comm/mesh.h"
#include "recycle/executor/state_record.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct StateRecord {
  StateRecordHeader header;
  std::vector<std::byte> bytes;
};

class StateReceiver {
 public:
  StateReceiver(const std::shared_ptr<Device>& device, const Transfer& transfer);
  ~StateReceiver();  // gives up: Take fails with kAborted
  StateReceiver(const StateReceiver&) = delete;
  StateReceiver& operator=(const StateReceiver&) = delete;

  // This end's, for the donor.
  const std::string& address() const { return address_; }

  // Connects to the donor's end and calls `receive` with the outcome, both in the own thread.
  // Once; later calls change nothing.
  void Begin(const std::string& donor_end, std::function<void(const Status& connected)> receive);

  // Blocks for the next record of a state of at most `num_parameters` parameters. Errors: the link
  // is broken or given up; kDataLoss: what came is none.
  StatusOr<StateRecord> Take(std::size_t num_parameters);

 private:
  StatusOr<std::vector<std::byte>> TakeFrame();
  StatusOr<std::vector<std::byte>> TakeBytes(std::uint64_t size);

  const WorkerId donor_;
  Inbox inbox_;
  int next_frame_ = 0;
  Mesh mesh_;
  std::string address_;
  std::thread thread_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STATE_RECEIVER_H_
