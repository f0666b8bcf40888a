// Where received frames wait until they are consumed: links deliver in the order of arrival, the
// executor takes in the order of its schedule. Frames of an older generation are dropped, those of
// a newer one wait for it. Boundary tensors that are here stay from one generation to the next;
// norms and validation frames end with theirs.
//
//   std::vector<FrameKey> waiting = inbox.Promise(g);   // for the Ledger
//   inbox.StartGeneration(g);                           // at Resume
//   StatusOr<Frame> activation = inbox.Take({iteration, FrameKind::kActivation, stage, 7});
//   inbox.DropBefore(iteration + 1);                    // after the step
//
// Thread-safe. Unbounded: a schedule bounds what can be in flight.
// Source: rules a and d of docs/RECOVERY.md (what is kept; a ledger is a promise).
#ifndef RECYCLE_COMM_INBOX_H_
#define RECYCLE_COMM_INBOX_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/frame.h"

namespace recycle {

// Totals since the inbox was made; payload bytes only.
struct InboxCounters {
  std::int64_t frames = 0;            // delivered, of whatever fate
  std::int64_t bytes = 0;             // their payloads
  std::int64_t stale_frames = 0;      // dropped: of an older generation or a closed iteration
  std::int64_t duplicate_frames = 0;  // ignored: the key was waiting already
};

class Inbox {
 public:
  Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Called in Deliver for every frame, before it can be taken. Set it before frames come.
  using OnArrival = std::function<void(const FrameKey& key, std::size_t payload_bytes)>;
  void SetArrivalHook(OnArrival hook) { on_arrival_ = std::move(hook); }

  // Puts `frame` where Take finds it, by the rules above. Never blocks for long.
  void Deliver(Frame frame);

  // From now on nothing older than `generation` is accepted. Returns the boundary tensors that
  // wait, ascending: they stay until they are taken or their iteration is closed.
  std::vector<FrameKey> Promise(Generation generation);

  // From now on Take finds frames of `generation`, and boundary tensors that were there before.
  // Promises it, too. A generation never goes back; starting the current one again does nothing.
  void StartGeneration(Generation generation);

  // Iterations before `iteration` are closed: their boundary tensors are dropped, those that wait
  // and those still to come.
  void DropBefore(int iteration);

  // Boundary tensors of `iteration` and later that wait are dropped, those of a generation that is
  // not started yet excepted: the iteration begins again.
  void DropFrom(int iteration);

  // Nothing that has come so far, or comes with a generation older than `generation`, counts any
  // more; boundary tensors from `iteration` on do again.
  void StartOver(Generation generation, int iteration);

  // Blocks until the frame of `key` is there and hands it over, or returns the status of Interrupt,
  // which goes first.
  StatusOr<Frame> Take(const FrameKey& key);

  // Every Take, blocked or to come, returns `why` (not OK) until ClearInterrupt.
  void Interrupt(Status why);
  void ClearInterrupt();

  InboxCounters counters() const;

 private:
  bool IsClosed(const FrameKey& key) const;
  void Add(Frame frame);
  void PromiseLocked(Generation generation);

  OnArrival on_arrival_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Generation generation_;    // running
  Generation promised_;      // the oldest accepted; at least the running one
  int first_iteration_ = 0;  // those before are closed
  std::map<FrameKey, Frame> waiting_;
  std::map<std::pair<Generation, FrameKey>, Frame> newer_;  // than the running generation
  Status interrupt_;
  InboxCounters counters_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_INBOX_H_
