#include "recycle/rpc/channel.h"

#include <fmt/format.h>

#include <chrono>

#include "recycle/rpc/credentials.h"
#include "recycle/rpc/numeric_address.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {
namespace {

// Between two attempts to connect, so that a coordinator that comes up late is found soon.
constexpr int kReconnectBackoffMs = 100;

// Why a channel does not connect, in gRPC's words; empty if it just takes long.
std::string Reason(const std::shared_ptr<grpc::Channel>& channel) {
  if (channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return "";
  grpc::ClientContext context;  // fails at once on such a channel: nothing is sent
  context.set_deadline(DeadlineAfter(std::chrono::milliseconds(kReconnectBackoffMs)));
  v1::StatusReply reply;
  const grpc::Status status =
      v1::Control::NewStub(channel)->Status(&context, v1::StatusRequest(), &reply);
  return ": " + status.error_message();
}

}  // namespace

StatusOr<std::shared_ptr<grpc::Channel>> ConnectChannel(const std::string& address,
                                                        const RpcSecurity& security,
                                                        Duration timeout) {
  RC_ASSIGN_OR_RETURN(const std::string target, GrpcTarget(address));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  arguments.SetMaxSendMessageSize(kMaxRequestBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  auto channel = grpc::CreateCustomChannel(target, ClientCredentials(security.tls), arguments);
  if (channel->WaitForConnected(DeadlineAfter(timeout))) return channel;
  return absl::UnavailableError(fmt::format("no coordinator answers at {} within {:.0f} ms{}",
                                            address, ToMilliseconds(timeout), Reason(channel)));
}

Status StatusOf(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  const std::string text = what + ": " + status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return absl::UnauthenticatedError(text);
  }
  return absl::UnavailableError(text);
}

gpr_timespec DeadlineAfter(Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

}  // namespace recycle
