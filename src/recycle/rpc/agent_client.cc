#include "recycle/rpc/agent_client.h"

#include <thread>
#include <utility>

#include "recycle/rpc/channel.h"
#include "recycle/rpc/client_stream.h"
#include "recycle/rpc/convert.h"
#include "recycle/rpc/wire_values.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {

class AgentClient::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel, std::function<void(const StartExecutor&)> on_start)
      : stub_(v1::Control::NewStub(std::move(channel))),
        stream_([this](grpc::ClientContext* context) { return stub_->Agent(context); }),
        on_start_(std::move(on_start)),
        reader_([this] { Read(); }) {}
  ~Impl() {
    stream_.Close();  // ends the reader
    reader_.join();
  }

  void Send(const AgentMessage& message) { stream_.Send(ToProto(message)); }
  void Close() { stream_.Close(); }

 private:
  void Read() {
    v1::AgentReply reply;
    while (stream_.Receive(reply)) {
      const StatusOr<WorkerId> worker = ReadWorker("start", reply.has_start(), reply.start());
      if (worker.ok()) on_start_({*worker});
    }
  }

  std::unique_ptr<v1::Control::Stub> stub_;
  ClientStream<v1::AgentMessage, v1::AgentReply> stream_;
  const std::function<void(const StartExecutor&)> on_start_;
  std::thread reader_;  // last
};

AgentClient::AgentClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgentClient::~AgentClient() = default;

StatusOr<std::unique_ptr<AgentClient>> AgentClient::Connect(
    const std::string& address, const AgentHello& hello, Duration timeout,
    std::function<void(const StartExecutor&)> on_start) {
  RC_ASSIGN_OR_RETURN(auto channel, ConnectChannel(address, timeout));
  std::unique_ptr<AgentClient> client(
      new AgentClient(std::make_unique<Impl>(std::move(channel), std::move(on_start))));
  client->Send(hello);
  return client;
}

void AgentClient::Send(const AgentMessage& message) { impl_->Send(message); }
void AgentClient::Close() { impl_->Close(); }

}  // namespace recycle
