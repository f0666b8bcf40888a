// One-shot questions to a running coordinator: `recycle status`, and the wish to stop.
//
//   StatusOr<std::string> json = FetchStatus("127.0.0.1:40213", std::chrono::seconds(2));
//
// Thread-safe, blocking.
#ifndef RECYCLE_RPC_STATUS_CLIENT_H_
#define RECYCLE_RPC_STATUS_CLIENT_H_

#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"

namespace recycle {

// What ControlServer::Handlers::status_json returns there. Errors: kUnavailable if the coordinator
// cannot be reached within `timeout`, kInvalidArgument for an address that is not numeric.
StatusOr<std::string> FetchStatus(const std::string& address, Duration timeout);

// Asks the job to finish its iteration and stop. Errors as above.
Status RequestStop(const std::string& address, Duration timeout);

}  // namespace recycle

#endif  // RECYCLE_RPC_STATUS_CLIENT_H_
