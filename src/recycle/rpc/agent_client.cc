#include "recycle/rpc/agent_client.h"

#include <utility>

#include "recycle/rpc/channel.h"
#include "recycle/rpc/client_stream.h"
#include "recycle/rpc/convert.h"
#include "recycle/rpc/wire_values.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {

class AgentClient::Impl {
 public:
  Impl(const RpcSecurity& security, std::shared_ptr<grpc::Channel> channel)
      : stub_(v1::Control::NewStub(std::move(channel))),
        stream_(security, [this](grpc::ClientContext* context) { return stub_->Agent(context); }) {}

  void Send(const AgentMessage& message) { stream_.Send(ToProto(message)); }
  Status Serve(const std::function<void(const StartExecutor&)>& on_start) {
    v1::AgentReply reply;
    while (stream_.Receive(reply)) {
      const StatusOr<WorkerId> worker = ReadWorker("start", reply.has_start(), reply.start());
      if (worker.ok()) on_start({*worker});
    }
    const Status end = StatusOf(stream_.End(), "the agent's stream to the coordinator has ended");
    return end.ok() ? absl::UnavailableError("the coordinator has ended the agent's stream") : end;
  }
  void Cancel() { stream_.Cancel(); }
  void Close() { stream_.Close(); }

 private:
  std::unique_ptr<v1::Control::Stub> stub_;
  ClientStream<v1::AgentMessage, v1::AgentReply> stream_;
};

AgentClient::AgentClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgentClient::~AgentClient() = default;

StatusOr<std::unique_ptr<AgentClient>> AgentClient::Connect(const std::string& address,
                                                            const RpcSecurity& security,
                                                            const AgentHello& hello,
                                                            Duration timeout) {
  RC_ASSIGN_OR_RETURN(auto channel, ConnectChannel(address, security, timeout));
  std::unique_ptr<AgentClient> client(
      new AgentClient(std::make_unique<Impl>(security, std::move(channel))));
  client->Send(hello);
  return client;
}

void AgentClient::Send(const AgentMessage& message) { impl_->Send(message); }
Status AgentClient::Serve(const std::function<void(const StartExecutor&)>& on_start) {
  return impl_->Serve(on_start);
}
void AgentClient::Cancel() { impl_->Cancel(); }
void AgentClient::Close() { impl_->Close(); }

}  // namespace recycle
