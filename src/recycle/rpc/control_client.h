// An executor's line to the coordinator: one gRPC stream. The first message sent must be Hello.
//
//   RC_ASSIGN_OR_RETURN(auto client, ControlClient::Connect(address, security,
//                                                          std::chrono::seconds(10)));
//   client->Send(Hello{.worker = worker, .pid = getpid()});
//   StatusOr<CoordinatorMessage> message = client->Receive();
//
// Thread-safe: any thread may Send, Close or Cancel; one thread at a time may Receive. One thread
// of its own writes. Create it after fork: gRPC does not survive one.
#ifndef RECYCLE_RPC_CONTROL_CLIENT_H_
#define RECYCLE_RPC_CONTROL_CLIENT_H_

#include <memory>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

class ControlClient {
 public:
  // `address` as ControlServer::address() gives it: numeric, no host name. Errors: kInvalidArgument
  // for another form, kUnavailable if nobody answers within `timeout`.
  static StatusOr<std::unique_ptr<ControlClient>> Connect(const std::string& address,
                                                          const RpcSecurity& security,
                                                          Duration timeout);
  ~ControlClient();  // Close()
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Queues the message; never blocks on the network. Lost if the stream is closed.
  void Send(const ExecutorMessage& message);

  // Blocks for the next message. kUnavailable once the stream has ended, for good, kUnauthenticated
  // if the coordinator has refused it; kInvalidArgument for a message that makes no sense (the
  // stream is ended then).
  StatusOr<CoordinatorMessage> Receive();

  // Ends the stream at once; what is queued is lost. Never blocks.
  void Cancel();

  // Sends what is queued (last words!), lets the coordinator confirm by ending the stream, for at
  // most half a second, and ends it.
  void Close();

 private:
  class Impl;
  explicit ControlClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recycle

#endif  // RECYCLE_RPC_CONTROL_CLIENT_H_
