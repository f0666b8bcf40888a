// One-shot questions to a running coordinator: `recycle status`, and the wishes to stop and to
// drain.
//
//   StatusOr<std::string> json = FetchStatus("127.0.0.1:40213", security, std::chrono::seconds(2));
//
// Thread-safe, blocking.
#ifndef RECYCLE_RPC_STATUS_CLIENT_H_
#define RECYCLE_RPC_STATUS_CLIENT_H_

#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

// What ControlServer::Handlers::status_json returns there. Errors: kUnavailable if the coordinator
// cannot be reached within `timeout`, kUnauthenticated if it refuses the call, kInvalidArgument for
// an address that is not numeric.
StatusOr<std::string> FetchStatus(const std::string& address, const RpcSecurity& security,
                                  Duration timeout);

// Asks the job to finish its iteration and stop. Errors as above.
Status RequestStop(const std::string& address, const RpcSecurity& security, Duration timeout);

// Asks `worker` to leave after its iteration. OK says only that the wish has arrived. Errors as
// above.
Status RequestDrain(const std::string& address, const RpcSecurity& security, WorkerId worker,
                    Duration timeout);

}  // namespace recycle

#endif  // RECYCLE_RPC_STATUS_CLIENT_H_
