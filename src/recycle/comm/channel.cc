#include "recycle/comm/channel.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/secret.h"

namespace recycle {
namespace {

namespace tcp = gloo::transport::tcp;

// Each end calls itself rank 0 and the other rank 1: gloo sends no ranks.
constexpr int kSelf = 0;
constexpr int kPeer = 1;
constexpr int kRanks = 2;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kNonceBytes = 32;
constexpr std::uint64_t kTag = 0;  // one queue of messages per channel
constexpr std::chrono::milliseconds kForever = std::chrono::hours(1000);
constexpr std::chrono::milliseconds kNotAtAll = std::chrono::milliseconds::zero();

// Drops the source position that gloo puts in front: "[./gloo/.../pair.cc:598] text".
std::string WithoutPosition(const std::string& text) {
  const std::size_t end = text.find("] ");
  const bool has_position = text.rfind('[', 0) == 0 && text.rfind(".cc:", end) != std::string::npos;
  return has_position && end != std::string::npos ? text.substr(end + 2) : text;
}

// Runs `operation` and turns what gloo throws into a status: the border.
template <typename Operation>
Status AtTheBorder(Operation operation) {
  try {
    return operation();
  } catch (const gloo::IoException& error) {
    return absl::UnavailableError(WithoutPosition(error.what()));
  } catch (const std::exception& error) {
    RC_CHECK(false) << "gloo: " << error.what();
  }
  return OkStatus();
}

// What `speaker` says to show `listener` that it knows both addresses. The key is the same for
// both; the text is not, so that no end's proof can be thrown back at it.
std::string Proof(const std::string& speaker, const std::string& listener,
                  const std::string& speakers_nonce, const std::string& listeners_nonce) {
  const auto& [first, second] = std::minmax(speaker, listener);
  return HmacSha256(first + second, speaker + listener + speakers_nonce + listeners_nonce);
}

// A pair that tells when it closes, whoever closes it, and can be closed with an error by any
// thread.
class ObservedPair final : public tcp::Pair {
 public:
  using OnClosed = std::function<void(const std::string& why)>;

  ObservedPair(tcp::Context* context, tcp::Device* device, OnClosed on_closed)
      : tcp::Pair(context, device, kPeer, gloo::kNoTimeout), on_closed_(std::move(on_closed)) {}

  void Break(const std::string& why) { signalExceptionExternal(why); }

 protected:
  // Called with the pair's lock held.
  void changeState(state next) noexcept override {
    if (next == CLOSED) on_closed_(Reason());
    tcp::Pair::changeState(next);
  }

 private:
  std::string Reason() const {
    if (ex_ == nullptr) return "closed";
    const Status status = AtTheBorder([&]() -> Status { std::rethrow_exception(ex_); });
    return std::string(status.message());
  }

  const OnClosed on_closed_;
};

}  // namespace

class Channel::Context final : public tcp::Context {
 public:
  Context(std::shared_ptr<tcp::Device> device, ObservedPair::OnClosed on_closed)
      : tcp::Context(std::move(device), kSelf, kRanks), on_closed_(std::move(on_closed)) {
    setTimeout(kForever);
    createPair(kPeer);
  }

  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override {
    auto pair = std::make_unique<ObservedPair>(this, device_.get(), on_closed_);
    pair_ = pair.get();
    pairs_[rank] = std::move(pair);
    return pairs_[rank];
  }

  ObservedPair& pair() { return *pair_; }

 private:
  const ObservedPair::OnClosed on_closed_;
  ObservedPair* pair_ = nullptr;
};

StatusOr<std::unique_ptr<Channel>> Channel::Open(const std::shared_ptr<Device>& device) {
  std::unique_ptr<Channel> channel;
  const Status status = AtTheBorder([&] {
    channel.reset(new Channel(device));
    return OkStatus();
  });
  if (status.ok()) return channel;
  return absl::ResourceExhaustedError("cannot listen for a peer: " + std::string(status.message()) +
                                      "; hint: raise the limit of open files (ulimit -n)");
}

Channel::Channel(const std::shared_ptr<Device>& device)
    : context_(std::make_shared<Context>(device->gloo(),
                                         [this](const std::string& why) { WakeAll(why); })) {
  const std::vector<char> bytes = context_->pair().address().bytes();
  address_ = std::string(bytes.begin(), bytes.end()) + RandomBytes(kSecretBytes);
}

Channel::~Channel() {
  Break("closed");
  RC_CHECK(buffers_.empty()) << "a buffer outlives its channel";
}

Status Channel::Connect(const std::string& peer_address) {
  if (peer_address.size() != address_.size()) {
    return absl::InvalidArgumentError("a peer's address has " + std::to_string(address_.size()) +
                                      " bytes, this one has " +
                                      std::to_string(peer_address.size()));
  }
  RC_CHECK(peer_address != address_) << "a channel cannot be its own peer";
  RC_RETURN_IF_ERROR(AtTheBorder([&] {
    context_->pair().connect(
        std::vector<char>(peer_address.begin(), peer_address.end() - kSecretBytes));
    return OkStatus();
  }));
  return ProveEnds(peer_address);
}

Status Channel::ProveEnds(const std::string& peer_address) {
  const std::string nonce = RandomBytes(kNonceBytes);
  RC_ASSIGN_OR_RETURN(const std::string peer_nonce, Exchange(nonce));
  RC_ASSIGN_OR_RETURN(const std::string proof,
                      Exchange(Proof(address_, peer_address, nonce, peer_nonce)));
  if (SameSecret(Proof(peer_address, address_, peer_nonce, nonce), proof)) return OkStatus();
  const Status stranger = absl::UnavailableError("a stranger connected in the peer's place");
  Break(std::string(stranger.message()));
  return stranger;
}

// Sends `sent` and receives as many bytes.
StatusOr<std::string> Channel::Exchange(std::string sent) {
  std::string received(sent.size(), '\0');
  ChannelBuffer sending(*this, std::as_writable_bytes(std::span(sent)));
  ChannelBuffer receiving(*this, std::as_writable_bytes(std::span(received)));
  const Status status = [&] {
    RC_RETURN_IF_ERROR(receiving.PostReceive(0, received.size()));
    RC_RETURN_IF_ERROR(sending.PostSend(0, sent.size()));
    RC_RETURN_IF_ERROR(sending.AwaitSend());
    return receiving.AwaitReceive();
  }();
  if (status.ok()) return received;
  Break(std::string(status.message()));  // the buffers may be in use until then
  return status;
}

void Channel::Break(const std::string& why) { context_->pair().Break(why); }

void Channel::Register(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  buffers_.push_back(buffer);
}

void Channel::Unregister(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  std::erase(buffers_, buffer);
}

void Channel::WakeAll(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_broken_ = why;
  for (gloo::transport::UnboundBuffer* buffer : buffers_) {
    buffer->abortWaitSend();
    buffer->abortWaitRecv();
  }
}

// `status` with the reason why the channel broke in place of gloo's words about the operation. A
// waiter that gloo itself woke can be here before WakeAll; its words are the reason then.
Status Channel::Explain(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (status.ok() || why_broken_.empty()) return status;
  return absl::UnavailableError(why_broken_);
}

ChannelBuffer::ChannelBuffer(Channel& channel, std::span<std::byte> memory)
    : channel_(channel),
      buffer_(channel.context_->createUnboundBuffer(memory.data(), memory.size())) {
  channel_.Register(buffer_.get());
}

ChannelBuffer::~ChannelBuffer() { channel_.Unregister(buffer_.get()); }

Status ChannelBuffer::PostSend(std::size_t offset, std::size_t bytes) {
  return AtTheBorder([&] {
    buffer_->send(kPeer, kTag, offset, bytes);
    return OkStatus();
  });
}

Status ChannelBuffer::PostReceive(std::size_t offset, std::size_t bytes) {
  return AtTheBorder([&] {
    buffer_->recv(kPeer, kTag, offset, bytes);
    return OkStatus();
  });
}

// The first wait is false when WakeAll ended it. The second one then tells whether the operation
// had been completed: it returns true if so and throws if not; its timeout closes a closed pair.
Status ChannelBuffer::AwaitSend() {
  return channel_.Explain(AtTheBorder([&] {
    if (!buffer_->waitSend(nullptr, kForever)) buffer_->waitSend(nullptr, kNotAtAll);
    return OkStatus();
  }));
}

Status ChannelBuffer::AwaitReceive() {
  return channel_.Explain(AtTheBorder([&] {
    if (!buffer_->waitRecv(nullptr, kForever)) buffer_->waitRecv(nullptr, kNotAtAll);
    return OkStatus();
  }));
}

}  // namespace recycle
