// One link of a mesh: a channel, a thread that receives and a thread that sends. Used by Mesh only.
//
// Life: opened -> connecting -> connected -> broken; Close ends it in any state. Invariants: a
// receive once posted stays posted while the link lives; the receiver copies a message out and
// posts its buffer again before anything else; the sender keeps the bytes of a send until the
// kernel has them. Thread-safe, but Start and Close belong to the mesh's owner.
#ifndef RECYCLE_COMM_LINK_H_
#define RECYCLE_COMM_LINK_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/channel.h"
#include "recycle/comm/device.h"
#include "recycle/comm/frame.h"
#include "recycle/comm/mesh.h"

namespace recycle {

class PeerLink {
 public:
  enum class State { kOpened, kConnecting, kConnected, kBroken };

  struct Callbacks {
    std::function<void()> settled;  // connected, or failed to connect
    std::function<void(Frame frame)> received;
    std::function<void(const std::string& error)> broken;  // was connected; not by Close
  };

  // Error: kResourceExhausted.
  static StatusOr<std::shared_ptr<PeerLink>> Open(const std::shared_ptr<Device>& device,
                                                  std::size_t max_payload_bytes,
                                                  Callbacks callbacks);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  const std::string& address() const { return channel_->address(); }

  // Connects in the receiver's thread; returns at once.
  void Start(const std::string& peer_address);

  State state() const;
  Status error() const;  // OK until broken

  // Error: kUnavailable unless connected.
  Status Send(OutgoingFrame frame, SendHook hook);

  // Breaks the channel, so that a thread of the link sees `why`.
  void Break(const std::string& why) { channel_->Break(why); }

  // Breaks silently and joins the threads.
  void Close();

  MeshCounters counters() const;

 private:
  struct Outgoing {
    OutgoingFrame frame;
    SendHook hook;
  };
  // A buffer of one frame at its largest.
  struct Slot {
    Slot(Channel& channel, std::size_t bytes)
        : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)),
          size(bytes),
          buffer(channel, {memory.get(), bytes}) {}
    Status PostReceive() { return buffer.PostReceive(0, size); }

    std::unique_ptr<std::byte[]> memory;
    std::size_t size;
    ChannelBuffer buffer;
  };
  static constexpr std::size_t kPostedReceives = 4;

  PeerLink(std::unique_ptr<Channel> channel, std::size_t max_payload_bytes, Callbacks callbacks);

  void RunReceiver(const std::string& peer_address);
  Status PostReceives();
  Status ReceiveFrames();
  StatusOr<Frame> ReceiveFrame();
  Status ReceiveMessage(const std::function<Status(std::span<const std::byte> message)>& consume);
  void RunSender();
  std::optional<Outgoing> NextOutgoing();
  Status SendFrame(const Outgoing& outgoing);
  Status SendMessage(std::size_t bytes);
  void SetState(State state, Status error);

  const std::size_t max_payload_bytes_;
  const Callbacks callbacks_;
  const std::unique_ptr<Channel> channel_;
  std::vector<std::unique_ptr<Slot>> receive_slots_;
  std::size_t next_slot_ = 0;  // receiver's: the oldest posted one
  Slot send_slot_;

  mutable std::mutex mutex_;
  std::condition_variable wake_sender_;
  State state_ = State::kOpened;
  Status error_;
  bool closing_ = false;
  std::deque<Outgoing> outgoing_;
  MeshCounters counters_;
  std::thread receiver_;
  std::thread sender_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_LINK_H_
