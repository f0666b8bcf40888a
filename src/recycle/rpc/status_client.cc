#include "recycle/rpc/status_client.h"

#include <fmt/format.h>

#include <chrono>

#include "recycle/rpc/channel.h"
#include "recycle/rpc/credentials.h"
#include "recycle/rpc/wire_values.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {
namespace {

// Calls one of the unary methods; connecting and answering may take `timeout` each.
template <typename Call>
Status CallOnce(const std::string& address, const RpcSecurity& security, Duration timeout,
                const Call& call) {
  RC_ASSIGN_OR_RETURN(const auto channel, ConnectChannel(address, security, timeout));
  grpc::ClientContext context;
  ShowToken(security, context);
  context.set_deadline(DeadlineAfter(timeout));
  const grpc::Status status = call(*v1::Control::NewStub(channel), context);
  const bool refused = status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
  return StatusOf(status, fmt::format("the coordinator at {} {}", address,
                                      refused ? "refuses the call" : "gives no answer"));
}

}  // namespace

StatusOr<std::string> FetchStatus(const std::string& address, const RpcSecurity& security,
                                  Duration timeout) {
  v1::StatusReply reply;
  RC_RETURN_IF_ERROR(CallOnce(address, security, timeout,
                              [&](v1::Control::Stub& stub, grpc::ClientContext& context) {
                                return stub.Status(&context, v1::StatusRequest(), &reply);
                              }));
  return reply.json();
}

Status RequestStop(const std::string& address, const RpcSecurity& security, Duration timeout) {
  return CallOnce(address, security, timeout,
                  [](v1::Control::Stub& stub, grpc::ClientContext& context) {
                    v1::StopReply reply;
                    return stub.Stop(&context, v1::StopWish(), &reply);
                  });
}

Status RequestDrain(const std::string& address, const RpcSecurity& security, WorkerId worker,
                    Duration timeout) {
  return CallOnce(address, security, timeout,
                  [worker](v1::Control::Stub& stub, grpc::ClientContext& context) {
                    v1::DrainWish wish;
                    *wish.mutable_worker() = ToProto(worker);
                    v1::DrainReply reply;
                    return stub.Drain(&context, wish, &reply);
                  });
}

}  // namespace recycle
