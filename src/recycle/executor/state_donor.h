// The giving side of one copy of a stage's state to a worker that comes back. The training thread
// only copies memory, between two iterations; a thread of its own sends. A rate limit holds for the
// parameters: no more of them are copied out than go onto the wire within about a second, so that
// little memory is needed; reduced gradients follow outside the limit.
//
//   StateDonor donor(device, transfer, bytes_per_second, on_broken);
//   Publish(donor.address());
//   donor.Begin(joiner_end);                 // control thread
//   donor.AfterStep(optimizer_step);         // training thread, after each own step
//   donor.End(optimizer_step, owes);         // training thread: the joiner is a member now
//
// Instead of the last two, a donor of snapshots:
//
//   donor.Give(snapshot);
//
// Thread-safe.
// Source: "Coming back" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_STATE_DONOR_H_
#define RECYCLE_EXECUTOR_STATE_DONOR_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/comm/device.h"
#include "recycle/comm/inbox.h"
#include "recycle/comm/mesh.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/executor/snapshot_store.h"
#include "recycle/executor/state_record.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class StateDonor {
 public:
  // `bytes_per_second`: 0 = no limit. `on_broken` is called at most once, in a thread of the copy.
  StateDonor(const std::shared_ptr<Device>& device, const Transfer& transfer,
             double bytes_per_second, std::function<void(const std::string& error)> on_broken);
  ~StateDonor();  // gives up what has not gone out
  StateDonor(const StateDonor&) = delete;
  StateDonor& operator=(const StateDonor&) = delete;

  WorkerId joiner() const { return joiner_; }
  // This end's, for the joiner.
  const std::string& address() const { return address_; }

  // Connects to the joiner's end, in the copy's own thread. Once.
  void Begin(const std::string& joiner_end);

  // The donor has made a step: the next parameters, and what the joiner needs to follow.
  void AfterStep(OptimizerStep& step);
  // The donor stands still at its version, and the joiner shall be there too. Later calls do
  // nothing.
  void End(const OptimizerStep& step, bool owes_validation);

  // Sends a whole snapshot, under the rate limit, instead of one that has not gone out yet.
  void Give(const Snapshot& snapshot);

 private:
  struct Outgoing {
    StateRecordHeader header;
    SharedBytes bytes;
  };

  void Run(const std::string& joiner_end);
  std::optional<Outgoing> Next();
  // False if the copy is over.
  bool SendRecord(const Outgoing& record);
  bool SendFrame(SharedBytes bytes);
  // Lets `bytes` of parameters wait for their turn. False if the copy is over.
  bool AwaitTurn(std::size_t bytes);
  void Push(StateRecordHeader header, SharedBytes bytes);
  void PushStep(const OptimizerStep& step);
  void Break(const std::string& error);

  const WorkerId joiner_;
  const double bytes_per_second_;
  const std::function<void(const std::string& error)> on_broken_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> outgoing_;
  std::size_t waiting_bytes_ = 0;  // of parameters in outgoing_
  bool connected_ = false;
  bool over_ = false;      // destroyed, or broken
  bool ended_ = false;     // End was called
  std::size_t given_ = 0;  // parameters, training thread's

  int next_frame_ = 0;  // the copy's thread's, as the next
  TimePoint turn_;
  Inbox inbox_;  // nothing comes in
  Mesh mesh_;
  std::string address_;
  std::thread thread_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STATE_DONOR_H_
