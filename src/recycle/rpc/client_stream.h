// The client's end of one control stream: a queue that one thread of its own writes out, and
// blocking reads. Used by ControlClient and AgentClient.
//
// Both directions count their messages from 1; one that is out of turn ends the stream.
//
// Thread-safe: any thread may Send, Close or Cancel; one thread at a time may Receive.
#ifndef RECYCLE_RPC_CLIENT_STREAM_H_
#define RECYCLE_RPC_CLIENT_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "recycle/rpc/credentials.h"

namespace recycle {

template <typename Request, typename Reply>
class ClientStream {
 public:
  using Stream = grpc::ClientReaderWriter<Request, Reply>;
  // Starts the call on the given context.
  using Open = std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>;

  ClientStream(const RpcSecurity& security, const Open& open)
      : stream_(Start(security, open)), writer_([this] { Write(); }) {}
  ~ClientStream() { End(); }
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  // Never blocks on the network. Lost if the stream is over.
  void Send(Request request) {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    outbox_.push_back(std::move(request));
    changed_.notify_all();
  }

  // Blocks for the next reply. False once the stream is over, for good.
  bool Receive(Reply& reply) {
    const std::lock_guard lock(read_mutex_);
    if (!stream_->Read(&reply)) return false;
    if (reply.sequence() == ++received_) return true;
    context_.TryCancel();
    return false;
  }

  // Ends the stream at once: what is queued is lost. Never blocks.
  void Cancel() { context_.TryCancel(); }

  // Sends what is queued, waits for the server to end the stream, and cancels it after kPatience.
  void Close() {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, kPatience, [&] { return over_; })) return;
    context_.TryCancel();
  }

  // Closes the stream and tells how it ended; OK if it ended in good order.
  grpc::Status End() {
    Close();
    const std::lock_guard lock(end_mutex_);
    if (writer_.joinable()) {
      writer_.join();
      end_ = stream_->Finish();
    }
    return end_;
  }

 private:
  static constexpr std::chrono::milliseconds kPatience{500};

  std::unique_ptr<Stream> Start(const RpcSecurity& security, const Open& open) {
    ShowToken(security, context_);
    NameStream(context_);
    return open(&context_);
  }

  // The writer thread: until Close, and then until the server ends the stream, which tells that it
  // has read everything.
  void Write() {
    bool broken = false;
    for (std::int64_t sent = 1; std::optional<Request> request = NextToSend(); ++sent) {
      request->set_sequence(sent);
      broken = broken || !stream_->Write(*request);
    }
    stream_->WritesDone();
    Reply unread;
    while (Receive(unread)) {
    }
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  // Waits for a request; nothing once all are sent and the stream is closed.
  std::optional<Request> NextToSend() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closing_ || !outbox_.empty(); });
    if (outbox_.empty()) return std::nullopt;
    Request request = std::move(outbox_.front());
    outbox_.pop_front();
    return request;
  }

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::mutex read_mutex_;
  std::int64_t received_ = 0;  // guarded by read_mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> outbox_;
  bool closing_ = false;
  bool over_ = false;
  std::mutex end_mutex_;
  grpc::Status end_;    // guarded by end_mutex_, as is joining
  std::thread writer_;  // last: starts when everything else is there
};

}  // namespace recycle

#endif  // RECYCLE_RPC_CLIENT_STREAM_H_
