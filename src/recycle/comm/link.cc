#include "recycle/comm/link.h"

#include <algorithm>
#include <span>
#include <utility>

#include "recycle/base/check.h"

namespace recycle {

StatusOr<std::shared_ptr<PeerLink>> PeerLink::Open(const std::shared_ptr<Device>& device,
                                                   std::size_t max_payload_bytes,
                                                   Callbacks callbacks) {
  RC_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, Channel::Open(device));
  return std::shared_ptr<PeerLink>(
      new PeerLink(std::move(channel), max_payload_bytes, std::move(callbacks)));
}

PeerLink::PeerLink(std::unique_ptr<Channel> channel, std::size_t max_payload_bytes,
                   Callbacks callbacks)
    : max_payload_bytes_(max_payload_bytes),
      callbacks_(std::move(callbacks)),
      channel_(std::move(channel)),
      send_slot_(*channel_, kFrameHeaderBytes + max_payload_bytes) {
  for (std::size_t i = 0; i < kPostedReceives; ++i) {
    receive_slots_.push_back(std::make_unique<Slot>(*channel_, send_slot_.size));
  }
}

PeerLink::~PeerLink() { Close(); }

void PeerLink::Start(const std::string& peer_address) {
  SetState(State::kConnecting, OkStatus());
  receiver_ = std::thread([this, peer_address] { RunReceiver(peer_address); });
}

PeerLink::State PeerLink::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Status PeerLink::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

MeshCounters PeerLink::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

Status PeerLink::Send(OutgoingFrame frame, SendHook hook) {
  RC_CHECK(frame.payload != nullptr) << ToString(frame.key) << " has no payload";
  RC_CHECK(frame.payload->size() <= max_payload_bytes_)
      << ToString(frame.key) << " has " << frame.payload->size() << " bytes, a link carries "
      << max_payload_bytes_;
  const std::lock_guard lock(mutex_);
  if (state_ != State::kConnected) {
    return absl::UnavailableError(error_.ok() ? "not connected yet" : error_.message());
  }
  outgoing_.push_back({std::move(frame), std::move(hook)});
  wake_sender_.notify_one();
  return OkStatus();
}

void PeerLink::Close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_sender_.notify_one();
  channel_->Break("closed by this worker");
  if (receiver_.joinable()) receiver_.join();
}

void PeerLink::SetState(State state, Status error) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  error_ = std::move(error);
  wake_sender_.notify_one();
}

void PeerLink::RunReceiver(const std::string& peer_address) {
  Status status = channel_->Connect(peer_address);
  if (status.ok()) status = PostReceives();
  SetState(status.ok() ? State::kConnected : State::kBroken, status);
  callbacks_.settled();
  if (!status.ok()) return;
  sender_ = std::thread([this] { RunSender(); });
  status = ReceiveFrames();
  channel_->Break(std::string(status.message()));  // a damaged frame ends the link, too
  SetState(State::kBroken, status);
  sender_.join();
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    closing = closing_;
  }
  if (!closing) callbacks_.broken(std::string(status.message()));
}

Status PeerLink::PostReceives() {
  for (const std::unique_ptr<Slot>& slot : receive_slots_) RC_RETURN_IF_ERROR(slot->PostReceive());
  return OkStatus();
}

// Returns only an error.
Status PeerLink::ReceiveFrames() {
  while (true) {
    RC_ASSIGN_OR_RETURN(Frame frame, ReceiveFrame());
    callbacks_.received(std::move(frame));
  }
}

StatusOr<Frame> PeerLink::ReceiveFrame() {
  FrameHeader header;
  std::vector<std::byte> payload;
  RC_RETURN_IF_ERROR(ReceiveMessage([&](std::span<const std::byte> message) -> Status {
    RC_ASSIGN_OR_RETURN(header,
                        DecodeFrameHeader(message.first<kFrameHeaderBytes>(), max_payload_bytes_));
    const auto part = message.subspan(kFrameHeaderBytes, header.first_part_bytes);
    payload.reserve(header.payload_bytes);
    payload.assign(part.begin(), part.end());
    return OkStatus();
  }));
  if (payload.size() < header.payload_bytes) {
    RC_RETURN_IF_ERROR(ReceiveMessage([&](std::span<const std::byte> message) {
      const auto part = message.first(header.payload_bytes - payload.size());
      payload.insert(payload.end(), part.begin(), part.end());
      return OkStatus();
    }));
  }
  RC_ASSIGN_OR_RETURN(Frame frame, AssembleFrame(header, std::move(payload)));
  const std::lock_guard lock(mutex_);
  ++counters_.frames_received;
  counters_.bytes_received += static_cast<std::int64_t>(kFrameHeaderBytes + frame.payload.size());
  return frame;
}

Status PeerLink::ReceiveMessage(
    const std::function<Status(std::span<const std::byte> message)>& consume) {
  Slot& slot = *receive_slots_[next_slot_];
  RC_RETURN_IF_ERROR(slot.buffer.AwaitReceive());
  RC_RETURN_IF_ERROR(consume({slot.memory.get(), slot.size}));
  next_slot_ = (next_slot_ + 1) % receive_slots_.size();
  return slot.PostReceive();
}

void PeerLink::RunSender() {
  while (std::optional<Outgoing> outgoing = NextOutgoing()) {
    if (!SendFrame(*outgoing).ok()) return;  // the receiver sees the same error and reports it
  }
}

// Blocks; nothing when the link has ended.
std::optional<PeerLink::Outgoing> PeerLink::NextOutgoing() {
  std::unique_lock lock(mutex_);
  wake_sender_.wait(lock,
                    [&] { return closing_ || state_ == State::kBroken || !outgoing_.empty(); });
  if (closing_ || state_ == State::kBroken) return std::nullopt;
  Outgoing outgoing = std::move(outgoing_.front());
  outgoing_.pop_front();
  return outgoing;
}

Status PeerLink::SendFrame(const Outgoing& outgoing) {
  const std::vector<std::byte>& payload = *outgoing.frame.payload;
  const std::size_t first = outgoing.hook ? payload.size() / 2 : payload.size();
  std::byte* const memory = send_slot_.memory.get();
  EncodeFrameHeader(outgoing.frame, first,
                    std::span<std::byte, kFrameHeaderBytes>(memory, kFrameHeaderBytes));
  std::copy_n(payload.data(), first, memory + kFrameHeaderBytes);
  RC_RETURN_IF_ERROR(SendMessage(kFrameHeaderBytes + first));
  if (outgoing.hook) outgoing.hook();
  if (first < payload.size()) {
    std::copy_n(payload.data() + first, payload.size() - first, memory);
    RC_RETURN_IF_ERROR(SendMessage(payload.size() - first));
  }
  const std::lock_guard lock(mutex_);
  ++counters_.frames_sent;
  counters_.bytes_sent += static_cast<std::int64_t>(kFrameHeaderBytes + payload.size());
  return OkStatus();
}

Status PeerLink::SendMessage(std::size_t bytes) {
  RC_RETURN_IF_ERROR(send_slot_.buffer.PostSend(0, bytes));
  return send_slot_.buffer.AwaitSend();
}

}  // namespace recycle
