// One connection to one peer: the only file pair, with device, that knows gloo. A channel is a gloo
// context of two ranks with one TCP pair. Links and reduce groups are built of channels.
//
//   RC_ASSIGN_OR_RETURN(auto channel, Channel::Open(device));
//   ... give channel->address() to the peer, get the peer's ...
//   RC_RETURN_IF_ERROR(channel->Connect(peer_address));
//   ChannelBuffer buffer(*channel, memory);
//   RC_RETURN_IF_ERROR(buffer.PostReceive(0, n));
//   RC_RETURN_IF_ERROR(buffer.AwaitReceive());
//
// What gloo does not do and this does:
// - Break wakes every waiting thread at once. gloo's own error path forgets the operation whose
// bytes
//   are just being moved, so a peer that dies in the middle of a message would never be noticed.
// - Connect lets nobody in but the end that was meant. An address holds a secret besides the place;
// whoever gives both ends each other's address (the coordinator) lets them know each other's
// secret. Each proves that it knows both by an HMAC over the two addresses and fresh random
// numbers; before that no message is accepted.
// - A wait never times out: a gloo timeout would close the connection.
//
// Messages are FIFO, and each is received by the oldest posted receive, which must be large enough
// (gloo ends the process otherwise). All errors are kUnavailable: the peer or the connection is
// gone, or Break was called; the caller knows which. Anything else that gloo throws is a bug.
#ifndef RECYCLE_COMM_CHANNEL_H_
#define RECYCLE_COMM_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/device.h"

namespace gloo::transport {
class UnboundBuffer;
}  // namespace gloo::transport

namespace recycle {

class Channel {
 public:
  // Listens on a port of its own. Error: kResourceExhausted (file descriptors).
  static StatusOr<std::unique_ptr<Channel>> Open(const std::shared_ptr<Device>& device);

  // Breaks the channel. Its buffers must be gone.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Opaque bytes for the peer's Connect, and for nobody else.
  const std::string& address() const { return address_; }

  // Blocks until both ends have met, for ever if need be; Break ends it. Call it once.
  // Errors: kUnavailable (also for a stranger in the peer's place); kInvalidArgument (no address of
  // a channel).
  Status Connect(const std::string& peer_address);

  // Closes the connection; every operation, blocked or to come, fails with `why` (the first
  // counts). Thread-safe, idempotent, takes at most one turn of the device's loop (10 ms). Messages
  // that were received completely can still be awaited.
  void Break(const std::string& why);

 private:
  friend class ChannelBuffer;
  class Context;

  explicit Channel(const std::shared_ptr<Device>& device);

  Status ProveEnds(const std::string& peer_address);
  StatusOr<std::string> Exchange(std::string sent);
  void Register(gloo::transport::UnboundBuffer* buffer);
  void Unregister(gloo::transport::UnboundBuffer* buffer);
  void WakeAll(const std::string& why);
  Status Explain(const Status& status);

  std::string address_;
  std::mutex mutex_;
  std::string why_broken_;
  std::vector<gloo::transport::UnboundBuffer*> buffers_;
  std::shared_ptr<Context> context_;  // calls WakeAll: made last, destroyed first
};

// Memory that takes part in a channel's messages: at most one send and one receive at a time.
// Destroy it only when nothing is under way or after Channel::Break; the memory must live until
// then.
class ChannelBuffer {
 public:
  ChannelBuffer(Channel& channel, std::span<std::byte> memory);
  ~ChannelBuffer();
  ChannelBuffer(const ChannelBuffer&) = delete;
  ChannelBuffer& operator=(const ChannelBuffer&) = delete;

  // Start an operation on memory[offset, offset + bytes). They never block.
  Status PostSend(std::size_t offset, std::size_t bytes);
  Status PostReceive(std::size_t offset, std::size_t bytes);

  // Wait for it. A send is complete when its bytes are the kernel's; a receive may have got fewer
  // bytes than posted, and does not tell how many.
  Status AwaitSend();
  Status AwaitReceive();

 private:
  Channel& channel_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_CHANNEL_H_
