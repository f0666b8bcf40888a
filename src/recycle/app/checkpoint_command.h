// `recycle checkpoint inspect | verify | convert`: looks at checkpoints, proves them undamaged, and
// writes them in another number of files.
#ifndef RECYCLE_APP_CHECKPOINT_COMMAND_H_
#define RECYCLE_APP_CHECKPOINT_COMMAND_H_

#include <ostream>
#include <string>

#include "recycle/base/exit_code.h"
#include "recycle/base/status.h"

namespace recycle {

// `path`: a checkpoint's folder, a run folder, or its folder checkpoints/. A folder of several
// stands for all of them; convert takes the newest complete one.
struct CheckpointArguments {
  std::string path;
  bool json = false;   // inspect
  std::string target;  // convert
  int files = 1;       // convert
  bool operator==(const CheckpointArguments&) const = default;
};

// Errors of all: kNotFound: no such folder, or no checkpoint in it.
// Here also if the only one there is not complete or damaged.
Status RunCheckpointInspect(const CheckpointArguments& arguments, std::ostream& out);

// Reads every byte. kDone if every complete checkpoint of `path` is undamaged; kNo, with the damage
// printed, otherwise. One that is not complete is named and does no harm, unless it is `path`
// itself.
StatusOr<ExitCode> RunCheckpointVerify(const CheckpointArguments& arguments, std::ostream& out);

// Other errors: kAlreadyExists: the target is there; kDataLoss: the source is damaged.
Status RunCheckpointConvert(const CheckpointArguments& arguments, std::ostream& out);

}  // namespace recycle

#endif  // RECYCLE_APP_CHECKPOINT_COMMAND_H_
