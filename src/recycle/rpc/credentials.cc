#include "recycle/rpc/credentials.h"

#include <cstddef>
#include <string>

#include "recycle/base/secret.h"

namespace recycle {
namespace {

constexpr char kTokenKey[] = "recycle-token";
constexpr char kStreamKey[] = "recycle-stream-bin";  // gRPC encodes values of -bin keys
constexpr std::size_t kStreamNameBytes = 16;

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::optional<TlsTexts>& tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(
      {.pem_root_certs = tls->ca, .pem_private_key = tls->key, .pem_cert_chain = tls->certificate});
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const RpcSecurity& security) {
  if (!security.tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      security.mutual_tls ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                          : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = security.tls->ca;
  options.pem_key_cert_pairs.push_back(
      {.private_key = security.tls->key, .cert_chain = security.tls->certificate});
  return grpc::SslServerCredentials(options);
}

void ShowToken(const RpcSecurity& security, grpc::ClientContext& context) {
  if (!security.token.empty()) context.AddMetadata(kTokenKey, security.token);
}

void NameStream(grpc::ClientContext& context) {
  context.AddMetadata(kStreamKey, RandomBytes(kStreamNameBytes));
}

std::string StreamName(const grpc::ServerContextBase& context) {
  const auto name = context.client_metadata().find(kStreamKey);
  if (name == context.client_metadata().end()) return "";
  return {name->second.data(), name->second.size()};
}

grpc::Status CheckToken(const RpcSecurity& security, const grpc::ServerContextBase& context) {
  if (security.token.empty()) return grpc::Status::OK;
  const auto shown = context.client_metadata().find(kTokenKey);
  if (shown == context.client_metadata().end()) {
    return {grpc::StatusCode::UNAUTHENTICATED, "this job asks for a token, and none was shown"};
  }
  if (SameSecret(security.token, {shown->second.data(), shown->second.size()})) {
    return grpc::Status::OK;
  }
  return {grpc::StatusCode::UNAUTHENTICATED, "the token is not the one of this job"};
}

}  // namespace recycle
