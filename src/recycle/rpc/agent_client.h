// An agent's line to the coordinator: one gRPC stream. When the agent dies the stream
// ends, and the coordinator takes the agent's executors for dead.
//
//   RC_ASSIGN_OR_RETURN(auto client, AgentClient::Connect(address, security,
//                       AgentHello{.agent = 0, .pid = getpid()}, std::chrono::seconds(10)));
//   client->Send(ExecutorExited{worker, pid, wait_status});
//
// Thread-safe. Create it after fork.
#ifndef RECYCLE_RPC_AGENT_CLIENT_H_
#define RECYCLE_RPC_AGENT_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

class AgentClient {
 public:
  // Connects and says `hello`. Errors as ControlClient::Connect.
  static StatusOr<std::unique_ptr<AgentClient>> Connect(const std::string& address,
                                                        const RpcSecurity& security,
                                                        const AgentHello& hello, Duration timeout);
  ~AgentClient();  // Close()
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;

  // Queues the message; never blocks on the network. Lost if the stream is closed.
  void Send(const AgentMessage& message);

  // Calls `on_start` for each command of the coordinator until the stream is over, and tells how it
  // ended: kUnavailable, or kUnauthenticated if the coordinator has refused it. One thread at a
  // time.
  Status Serve(const std::function<void(const StartExecutor&)>& on_start);
  // Ends the stream at once; what is queued is lost. Never blocks.
  void Cancel();

  // Sends what is queued, for at most half a second, and ends the stream.
  void Close();

 private:
  class Impl;
  explicit AgentClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recycle

#endif  // RECYCLE_RPC_AGENT_CLIENT_H_
