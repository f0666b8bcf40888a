// The coordinator's side of the control plane: one gRPC stream per executor and per agent, and the
// unary calls of `recycle status` and of a stop request. It knows no rule: it hands every message
// to a handler and sends what it is told to send.
//
// Every call has to show the job's token, if there is one; whoever does not is refused and counted,
// and nothing of what it says is read or logged. A stream has a name of its own: one with a name
// that has been there, a recording, is refused too.
//
// A stream belongs to the worker (or agent) that its first message, Hello, names. A second stream
// of the same worker replaces the first one silently; everything the old one still says is dropped.
// A message that does not parse, is larger than kMaxRequestBytes or comes out of turn, or whose
// first one is no Hello, ends the stream and is logged.
//
//   ControlServer::Handlers handlers;
//   handlers.on_executor_message = [&](WorkerId worker, ExecutorMessage message) { queue.Push(...);
//   }; RC_ASSIGN_OR_RETURN(auto server, ControlServer::Start("127.0.0.1", security,
//   std::move(handlers)));
//   server->Send(worker, Ask{.nonce = 7});
//
// Thread-safe. Handlers run on gRPC's threads, one at a time over all streams, so that the order
// they see is the order things happened; they must be quick and may call Send and Close, never
// destroy.
#ifndef RECYCLE_RPC_CONTROL_SERVER_H_
#define RECYCLE_RPC_CONTROL_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

class ControlServer {
 public:
  // A handler that is left empty ignores its event.
  struct Handlers {
    std::function<void(WorkerId, ExecutorMessage)> on_executor_message;  // Hello included
    // The worker's stream ended, whoever ended it; not called for a stream that was replaced.
    std::function<void(WorkerId)> on_executor_closed;
    std::function<void(int agent, AgentMessage)> on_agent_message;  // AgentHello included
    std::function<void(int agent)> on_agent_closed;
    std::function<std::string()> status_json;       // the answer of FetchStatus
    std::function<void()> on_stop_wanted;           // somebody called RequestStop
    std::function<void(WorkerId)> on_drain_wanted;  // somebody called RequestDrain
  };

  // Listens on `bind_address` (numeric, IPv4 or IPv6) and nowhere else, on a port chosen by the
  // system. Errors: kInvalidArgument for a host name, kUnavailable if the address cannot be bound.
  static StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& bind_address,
                                                        const RpcSecurity& security,
                                                        Handlers handlers);
  // Ends all streams at once; no handler is called any more once it returns.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // "127.0.0.1:40213", what clients connect to.
  const std::string& address() const;

  // Queues the message and returns at once. Dropped if the worker has no stream.
  void Send(WorkerId worker, const CoordinatorMessage& message);

  // The same for an agent.
  void Send(int agent, const StartExecutor& command);

  // Ends the worker's stream after everything queued has been sent.
  void Close(WorkerId worker);

  // Payload bytes (without framing) that went through, by message kind ("Heartbeat", "Resume",
  // ...).
  struct Count {
    std::int64_t messages = 0;
    std::int64_t bytes = 0;
  };
  struct Traffic {
    std::map<std::string, Count> in;
    std::map<std::string, Count> out;
  };
  Traffic traffic() const;

  // Calls that were refused and streams that were ended for what they said.
  struct Refusals {
    std::int64_t count = 0;
    std::string last;  // "Status from ipv4:192.0.2.7:41000: the token is not the one of this job"
  };
  Refusals refusals() const;

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recycle

#endif  // RECYCLE_RPC_CONTROL_SERVER_H_
