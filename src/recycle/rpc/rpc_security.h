// What protects the control plane: a token that every call has to show, and TLS. The texts of the
// files that a job names, checked by whoever read them (app/job_security.h).
//
//   auto server = ControlServer::Start(address, {.token = token}, handlers);
//   auto client = ControlClient::Connect(server->address(), {.token = token}, timeout);
//
// Plain data. The token is never logged and never leaves the process but as metadata of a call.
#ifndef RECYCLE_RPC_RPC_SECURITY_H_
#define RECYCLE_RPC_RPC_SECURITY_H_

#include <optional>
#include <string>

namespace recycle {

// In PEM.
struct TlsTexts {
  std::string ca;                // who signs the certificates of the other side
  std::string certificate = {};  // this side's, with its chain; empty: a client without one
  std::string key = {};          // of the certificate
};

struct RpcSecurity {
  std::string token = {};                      // empty: a server asks for none, a client shows none
  std::optional<TlsTexts> tls = std::nullopt;  // absent: everything goes in the clear
  bool mutual_tls = false;                     // the server asks clients for a certificate, too
};

}  // namespace recycle

#endif  // RECYCLE_RPC_RPC_SECURITY_H_
