// The server's end of one control stream, as a gRPC reactor: hands each message that arrives to its
// owner, sends queued messages one after the other, and deletes itself when the stream is over.
// Both directions count their messages from 1; one that is out of turn (lost, doubled, replayed)
// ends the stream.
//
// Send and Finish may be called from any thread as long as the owner knows the session (until
// OnSessionOver); the owner's calls come one at a time per session.
#ifndef RECYCLE_RPC_STREAM_SESSION_H_
#define RECYCLE_RPC_STREAM_SESSION_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

namespace recycle {

template <typename Request, typename Reply>
class StreamSession final : public grpc::ServerBidiReactor<Request, Reply> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // False ends the stream: the message made no sense. `in_turn`: its number is the next one.
    virtual bool OnSessionMessage(StreamSession* session, const Request& request, bool in_turn) = 0;
    // The session is about to be deleted.
    virtual void OnSessionOver(StreamSession* session) = 0;
  };

  explicit StreamSession(Owner* owner) : owner_(*owner) { this->StartRead(&request_); }

  void Send(Reply reply) {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    reply.set_sequence(++sent_);
    outbox_.push_back(std::move(reply));
    if (outbox_.size() == 1) this->StartWrite(&outbox_.front());
  }

  // Ends the stream once everything queued has been sent.
  void Finish(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
    status_ = std::move(status);
    FinishIfIdle();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
    } else if (owner_.OnSessionMessage(this, request_, request_.sequence() == ++received_)) {
      this->StartRead(&request_);
    } else {
      Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the message makes no sense"));
    }
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (ok) {
      outbox_.pop_front();
    } else {
      outbox_.clear();
      closing_ = true;
    }
    if (!outbox_.empty()) {
      this->StartWrite(&outbox_.front());
    } else {
      FinishIfIdle();
    }
  }

  void OnCancel() override { Finish(grpc::Status::CANCELLED); }

  void OnDone() override {
    owner_.OnSessionOver(this);
    delete this;
  }

 private:
  // gRPC takes no Finish beside a write, and one Finish only.
  void FinishIfIdle() {
    if (!closing_ || finished_ || !outbox_.empty()) return;
    finished_ = true;
    grpc::ServerBidiReactor<Request, Reply>::Finish(status_);
  }

  Owner& owner_;
  Request request_;
  std::int64_t received_ = 0;
  std::mutex mutex_;
  std::deque<Reply> outbox_;  // the first one is being written
  std::int64_t sent_ = 0;
  bool closing_ = false;
  bool finished_ = false;
  grpc::Status status_;
};

// A stream that is refused: nothing of it is read.
template <typename Request, typename Reply>
class RefusedSession final : public grpc::ServerBidiReactor<Request, Reply> {
 public:
  explicit RefusedSession(const grpc::Status& why) { this->Finish(why); }
  void OnDone() override { delete this; }
};

}  // namespace recycle

#endif  // RECYCLE_RPC_STREAM_SESSION_H_
