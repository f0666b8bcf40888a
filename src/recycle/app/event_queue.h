// The one door into the coordinator's thread: gRPC's threads push, the thread polls and drains.
//
//   queue.Push(FromExecutor{worker, message});              // any thread
//   poll({queue.descriptor(), ...}); for (Event& event : queue.Drain()) ...
//
// Thread-safe; one thread drains.
#ifndef RECYCLE_APP_EVENT_QUEUE_H_
#define RECYCLE_APP_EVENT_QUEUE_H_

#include <mutex>
#include <vector>

#include "recycle/coordinator/coordinator.h"

namespace recycle {

class EventQueue {
 public:
  EventQueue();
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  void Push(Event event);
  // Everything pushed so far, in order; empty if there is nothing. Does not block.
  std::vector<Event> Drain();
  // Readable while something waits.
  int descriptor() const { return wake_; }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
  int wake_;  // eventfd
};

}  // namespace recycle

#endif  // RECYCLE_APP_EVENT_QUEUE_H_
