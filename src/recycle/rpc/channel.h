// How every client of the control plane connects.
#ifndef RECYCLE_RPC_CHANNEL_H_
#define RECYCLE_RPC_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

// What a coordinator says: plans of large jobs are long.
inline constexpr int kMaxReplyBytes = 256 << 20;
// What is said to a coordinator: results of an iteration, a ledger. Enough for a million
// micro-batches; anybody who may call can make the coordinator hold as much.
inline constexpr int kMaxRequestBytes = 64 << 20;

// A channel that is connected: no proxy, no name look-up, no sharing with other channels. Errors:
// kInvalidArgument for an address that is not numeric, kUnavailable if nobody answers in `timeout`,
// or if the two ends do not agree on TLS.
StatusOr<std::shared_ptr<grpc::Channel>> ConnectChannel(const std::string& address,
                                                        const RpcSecurity& security,
                                                        Duration timeout);

// OK, or the error of a call as ours, beginning with `what`: kUnauthenticated if the server refused
// the caller, kUnavailable otherwise.
Status StatusOf(const grpc::Status& status, const std::string& what);

// `timeout` from now, for calls of gRPC that take a deadline.
gpr_timespec DeadlineAfter(Duration timeout);

}  // namespace recycle

#endif  // RECYCLE_RPC_CHANNEL_H_
