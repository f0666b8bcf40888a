// RpcSecurity as gRPC wants it: credentials of both ends, and the token among a call's metadata.
//
// Thread-safe.
#ifndef RECYCLE_RPC_CREDENTIALS_H_
#define RECYCLE_RPC_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "recycle/rpc/rpc_security.h"

namespace recycle {

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::optional<TlsTexts>& tls);
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const RpcSecurity& security);

// Adds what the server of the job looks for. Call it once, before the call starts.
void ShowToken(const RpcSecurity& security, grpc::ClientContext& context);

// Gives a stream a name that no other one has, so that a recording of it can be told.
void NameStream(grpc::ClientContext& context);
// The name; empty if the stream has none.
std::string StreamName(const grpc::ServerContextBase& context);

// OK if the call shows the token; UNAUTHENTICATED, with a sentence for the caller, otherwise.
// Compares in constant time.
grpc::Status CheckToken(const RpcSecurity& security, const grpc::ServerContextBase& context);

}  // namespace recycle

#endif  // RECYCLE_RPC_CREDENTIALS_H_
