// `recycle status`: what a running job is doing, for people.
#ifndef RECYCLE_APP_STATUS_H_
#define RECYCLE_APP_STATUS_H_

#include <string>

#include "recycle/app/event_writer.h"
#include "recycle/base/status.h"

namespace recycle {

// Where the coordinator of the job in this folder listens, HOST:PORT. Errors: kUnavailable if no
// job is running there; those of RunFolder::Open.
StatusOr<std::string> AddressOfRun(const std::string& run_dir);

// The coordinator's answer as a few lines of text.
std::string StatusText(const Json& status);

}  // namespace recycle

#endif  // RECYCLE_APP_STATUS_H_
