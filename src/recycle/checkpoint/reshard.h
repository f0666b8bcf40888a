// The same state in another number of files. Training does not need it, for a checkpoint loads
// under any layout: it is for people and their tools, who like one file.
#ifndef RECYCLE_CHECKPOINT_RESHARD_H_
#define RECYCLE_CHECKPOINT_RESHARD_H_

#include <string>

#include "recycle/base/status.h"
#include "recycle/checkpoint/checkpoint_folder.h"

namespace recycle {

// Writes `source` as a complete checkpoint into the new folder `target`, in `num_files` files (one
// per layer at most) of whole layers, about equally long. Every tensor's hash is checked on the
// way; one file's layers are in memory at a time. Errors: kAlreadyExists if the target is there;
// of reading and writing.
StatusOr<Manifest> Reshard(const Checkpoint& source, const std::string& target, int num_files);

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_RESHARD_H_
