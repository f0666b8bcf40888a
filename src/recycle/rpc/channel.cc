#include "recycle/rpc/channel.h"

#include <fmt/format.h>

#include <chrono>

#include "recycle/rpc/numeric_address.h"

namespace recycle {
namespace {

// Between two attempts to connect, so that a coordinator that comes up late is found soon.
constexpr int kReconnectBackoffMs = 100;

}  // namespace

StatusOr<std::shared_ptr<grpc::Channel>> ConnectChannel(const std::string& address,
                                                        Duration timeout) {
  RC_ASSIGN_OR_RETURN(const std::string target, GrpcTarget(address));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxControlMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  auto channel = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  if (channel->WaitForConnected(DeadlineAfter(timeout))) return channel;
  return absl::UnavailableError(fmt::format("no coordinator answers at {} within {:.0f} ms",
                                            address, ToMilliseconds(timeout)));
}

gpr_timespec DeadlineAfter(Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

}  // namespace recycle
