// The limit of open files: what most shells set is too little for a large job.
#ifndef RECYCLE_APP_OPEN_FILES_H_
#define RECYCLE_APP_OPEN_FILES_H_

#include "recycle/base/status.h"

namespace recycle {

// Raises the limit of this process, which its children inherit, to what a process of a job of
// `workers` may need. Error: kInvalidArgument if it may not; it says how much, and what to do.
Status RaiseOpenFileLimit(int workers);

}  // namespace recycle

#endif  // RECYCLE_APP_OPEN_FILES_H_
