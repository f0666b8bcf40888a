// How every client of the control plane connects.
#ifndef RECYCLE_RPC_CHANNEL_H_
#define RECYCLE_RPC_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"

namespace recycle {

// Plans of large jobs are long.
inline constexpr int kMaxControlMessageBytes = 256 << 20;

// A channel that is connected: no proxy, no name look-up, no sharing with other channels. Errors:
// kInvalidArgument for an address that is not numeric, kUnavailable if nobody answers in `timeout`.
StatusOr<std::shared_ptr<grpc::Channel>> ConnectChannel(const std::string& address,
                                                        Duration timeout);

// `timeout` from now, for calls of gRPC that take a deadline.
gpr_timespec DeadlineAfter(Duration timeout);

}  // namespace recycle

#endif  // RECYCLE_RPC_CHANNEL_H_
