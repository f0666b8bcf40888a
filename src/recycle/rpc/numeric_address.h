// Addresses of the control plane are numeric: no name is ever looked up.
//
// Pure, thread-safe.
#ifndef RECYCLE_RPC_NUMERIC_ADDRESS_H_
#define RECYCLE_RPC_NUMERIC_ADDRESS_H_

#include <string>

#include "recycle/base/status.h"

namespace recycle {

// "127.0.0.1" and 40213 -> "127.0.0.1:40213"; "::1" -> "[::1]:40213". Error: kInvalidArgument if
// `host` is no numeric address.
StatusOr<std::string> JoinAddress(const std::string& host, int port);

// What gRPC calls the target of "127.0.0.1:40213": "ipv4:127.0.0.1:40213", which it connects to
// without a resolver. Error: kInvalidArgument for any other form.
StatusOr<std::string> GrpcTarget(const std::string& address);

// Can only this machine reach what listens on the numeric address `host`? 127.0.0.0/8 and ::1.
bool IsLoopback(const std::string& host);

// OK for a numeric address that a process can listen on and others can connect to: not 0.0.0.0, not
// ::, which are every address. Error: kInvalidArgument.
Status CheckListenAddress(const std::string& host);

}  // namespace recycle

#endif  // RECYCLE_RPC_NUMERIC_ADDRESS_H_
