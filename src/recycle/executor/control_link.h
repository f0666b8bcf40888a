// The executor's line to the coordinator. app/ fills it with rpc/, tests with a queue.
#ifndef RECYCLE_EXECUTOR_CONTROL_LINK_H_
#define RECYCLE_EXECUTOR_CONTROL_LINK_H_

#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// Thread-safe: any thread may Send or Close; one thread at a time may Receive.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  // Queues the message; never blocks on the network. Lost if the stream is closed.
  virtual void Send(const ExecutorMessage& message) = 0;
  // Blocks for the next message. kUnavailable once the stream is closed (for good).
  virtual StatusOr<CoordinatorMessage> Receive() = 0;
  // Sends what is queued (last words!) and ends the stream: Receive returns kUnavailable.
  virtual void Close() = 0;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_CONTROL_LINK_H_
