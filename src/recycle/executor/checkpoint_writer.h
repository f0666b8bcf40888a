// This worker's share of the job's checkpoints. The layers of a stage are dealt to its live
// workers; after the step that makes a checkpoint due each copies its layers' parameters and
// moments (memory to memory: the only stall of the training thread), and a thread of its own writes
// them as a shard and tells the coordinator, which makes the checkpoint complete once it has them
// all.
//
//   writer.Save(generation, members, step);   // after a step, and at the start of a generation
//   RC_RETURN_IF_ERROR(writer.AwaitBeforeStep(step.version(), interrupted));
//   writer.Flush();                           // before the worker says that it is done
//
// Who stands at the version of a checkpoint when a generation begins saves it again under the new
// generation's assignment, so that the layers of a writer that died are written by its peers.
//
// A save overlaps with one whole iteration and the work of the next; the step after that waits for
// it, so that no more is lost than the interval, one iteration, and the time of the commit.
//
// Belongs to the training thread. What is in a checkpoint: docs/CHECKPOINTS.md.
#ifndef RECYCLE_EXECUTOR_CHECKPOINT_WRITER_H_
#define RECYCLE_EXECUTOR_CHECKPOINT_WRITER_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/checkpoint/shard.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/executor_options.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/plan/model_shape.h"

namespace recycle {

// The layers that `self` writes of `stage_layers`, which are dealt in order to the workers of its
// stage among `members`; empty (begin == end) if there are more workers than layers.
LayerRange ShareOfLayers(const LayerRange& stage_layers, WorkerId self,
                         const std::vector<WorkerId>& members);

class CheckpointWriter {
 public:
  // The references must outlive the writer.
  CheckpointWriter(const ExecutorOptions& options, ControlLink& control, FaultInjector& injector);
  // Waits for what is being written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Saves this worker's share of the state of `step` if a checkpoint of its version is due and has
  // not been saved in `generation`.
  void Save(Generation generation, const std::vector<WorkerId>& members, OptimizerStep& step);

  // Before the step of iteration `version`: blocks while the shard of an older version than that is
  // being written. Error: kAborted if `interrupted` says so meanwhile.
  Status AwaitBeforeStep(int version, const std::function<bool()>& interrupted);

  // Blocks until everything has been written and reported.
  void Flush();

  // The checkpoint of `version` is there already: the state came from it.
  void NoteRestored(int version) { restored_ = version; }

 private:
  // A copy of a share, with what is said about it.
  struct Share {
    ShardStamp stamp;
    LayerRange layers;
    std::vector<std::byte> numbers;
    std::vector<StateTensor> tensors;  // their bytes lie in `numbers`
  };

  bool IsDue(const OptimizerStep& step) const;
  Share Copy(Generation generation, const LayerRange& layers, OptimizerStep& step) const;
  void Loop();
  StatusOr<ManifestFile> Write(const Share& share);

  const ExecutorOptions& options_;
  ControlLink& control_;
  FaultInjector& injector_;
  const CheckpointFolder folder_;
  int restored_ = -1;    // version
  int saved_ = -1;       // the last version saved, and
  Generation saved_in_;  // in which generation
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Share> share_;  // waits or is being written
  bool stopping_ = false;
  std::thread thread_;  // last
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_CHECKPOINT_WRITER_H_
