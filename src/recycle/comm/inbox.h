// Where received frames wait until they are consumed: links deliver in the order of arrival, the
// executor takes in the order of its schedule. Frames of an older generation are dropped, those of
// a newer one wait for it.
//
//   inbox.StartGeneration(g);
//   StatusOr<Frame> activation = inbox.Take({iteration, FrameKind::kActivation, stage, 7});
//
// Thread-safe. Unbounded: a schedule bounds what can be in flight.
#ifndef RECYCLE_COMM_INBOX_H_
#define RECYCLE_COMM_INBOX_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/frame.h"

namespace recycle {

// Totals since the inbox was made; payload bytes only.
struct InboxCounters {
  std::int64_t frames = 0;            // delivered, of whatever fate
  std::int64_t bytes = 0;             // their payloads
  std::int64_t stale_frames = 0;      // dropped: of an older generation
  std::int64_t duplicate_frames = 0;  // ignored: the key was waiting already
};

class Inbox {
 public:
  Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Puts `frame` where Take finds it, by the rules above. Never blocks for long.
  void Deliver(Frame frame);

  // From now on Take finds frames of `generation`; everything older is dropped. A generation never
  // goes back; starting the current one again does nothing.
  void StartGeneration(Generation generation);

  // Blocks until the frame of `key` in the current generation is there and hands it over, or
  // returns the status of Interrupt, which goes first.
  StatusOr<Frame> Take(const FrameKey& key);

  // Every Take, blocked or to come, returns `why` (not OK) until ClearInterrupt.
  void Interrupt(Status why);
  void ClearInterrupt();

  InboxCounters counters() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Generation generation_;
  std::map<std::pair<Generation, FrameKey>, Frame> waiting_;
  Status interrupt_;
  InboxCounters counters_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_INBOX_H_
