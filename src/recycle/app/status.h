// `recycle status`: what a running job is doing, for people.
#ifndef RECYCLE_APP_STATUS_H_
#define RECYCLE_APP_STATUS_H_

#include <string>

#include "recycle/app/event_writer.h"
#include "recycle/base/status.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

// The coordinator of a job: where it listens, HOST:PORT, and what it asks of whoever calls.
struct CoordinatorAccess {
  std::string address;
  RpcSecurity security;
};
// Of the job in this folder. Errors: kUnavailable if no job is running there; those of
// RunFolder::Open and LoadSecurity.
StatusOr<CoordinatorAccess> AccessOfRun(const std::string& run_dir);

// The coordinator's answer as a few lines of text.
std::string StatusText(const Json& status);

}  // namespace recycle

#endif  // RECYCLE_APP_STATUS_H_
