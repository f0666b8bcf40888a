#include "recycle/rpc/control_client.h"

#include <utility>

#include "recycle/rpc/channel.h"
#include "recycle/rpc/client_stream.h"
#include "recycle/rpc/convert.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {

class ControlClient::Impl {
 public:
  Impl(const RpcSecurity& security, std::shared_ptr<grpc::Channel> channel)
      : stub_(v1::Control::NewStub(std::move(channel))),
        stream_(security,
                [this](grpc::ClientContext* context) { return stub_->Executor(context); }) {}

  void Send(const ExecutorMessage& message) { stream_.Send(ToProto(message)); }

  StatusOr<CoordinatorMessage> Receive() {
    v1::CoordinatorMessage reply;
    if (!stream_.Receive(reply)) {
      const Status end = StatusOf(stream_.End(), "the control stream to the coordinator has ended");
      return end.ok() ? absl::UnavailableError("the coordinator has ended the control stream")
                      : end;
    }
    StatusOr<CoordinatorMessage> message = FromProto(reply);
    if (!message.ok()) Close();
    return message;
  }

  void Close() { stream_.Close(); }
  void Cancel() { stream_.Cancel(); }

 private:
  std::unique_ptr<v1::Control::Stub> stub_;
  ClientStream<v1::ExecutorMessage, v1::CoordinatorMessage> stream_;
};

ControlClient::ControlClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlClient::~ControlClient() = default;

StatusOr<std::unique_ptr<ControlClient>> ControlClient::Connect(const std::string& address,
                                                                const RpcSecurity& security,
                                                                Duration timeout) {
  RC_ASSIGN_OR_RETURN(auto channel, ConnectChannel(address, security, timeout));
  return std::unique_ptr<ControlClient>(
      new ControlClient(std::make_unique<Impl>(security, std::move(channel))));
}

void ControlClient::Send(const ExecutorMessage& message) { impl_->Send(message); }
StatusOr<CoordinatorMessage> ControlClient::Receive() { return impl_->Receive(); }
void ControlClient::Cancel() { impl_->Cancel(); }
void ControlClient::Close() { impl_->Close(); }

}  // namespace recycle
