// Makes checkpoints complete. Workers report the shards they have written; once all layers are
// there, and the iteration's results are known, a thread of its own writes manifest and marker,
// moves `latest` and removes older checkpoints: the disk never delays the coordinator's decisions.
//
// The shards of a checkpoint are those of one generation. A checkpoint that lacks a shard for good
// (its writer died, or its disk is full) is given up when a later one begins; the one before stays.
//
//   CheckpointCommitter committer(options, [&] { wake(); });
//   committer.OnShard(shard); committer.OnIteration(iteration, loss);
//   for (const CheckpointCommitter::Result& result : committer.TakeResults()) ...
//   committer.Finish();
//
// Belongs to the coordinator's thread.
#ifndef RECYCLE_APP_CHECKPOINT_COMMITTER_H_
#define RECYCLE_APP_CHECKPOINT_COMMITTER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/checkpoint/manifest.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class CheckpointCommitter {
 public:
  struct Options {
    std::string folder;  // checkpoints/ of the run
    int keep = 1;
    int num_layers = 1;                           // of the whole model
    std::map<std::string, std::string> identity;  // of the manifest
    // Fault injection: called in the commit's thread with the checkpoint's iteration (from 1).
    std::function<void(CommitPoint point, int iteration)> at_point;
  };

  // A checkpoint is complete, or will not be (`error`).
  struct Result {
    int iteration = 0;
    std::uint64_t bytes = 0;  // of all its tensors
    Duration time{};          // from the first sign of it to its completion
    std::string error;
  };

  // `wake` is called in the commit's thread when a result is there.
  CheckpointCommitter(Options options, const Clock& clock, std::function<void()> wake);
  ~CheckpointCommitter() { Finish(); }
  CheckpointCommitter(const CheckpointCommitter&) = delete;
  CheckpointCommitter& operator=(const CheckpointCommitter&) = delete;

  void OnShard(const ShardWritten& shard);
  // `iteration` (from 1) is done, with this loss.
  void OnIteration(int iteration, double loss);

  // The job has gone back to `iteration`: whatever came of later ones is void. `is_complete`: to
  // its checkpoint.
  void StartOver(int iteration, bool is_complete);

  // Waits for the commits that have begun.
  void Wait();
  // The same, and nothing begins any more.
  void Finish();
  std::vector<Result> TakeResults();

 private:
  // The shards of one generation.
  using Shards = std::vector<ShardWritten>;
  struct Pending {
    TimePoint since;
    std::map<Generation, Shards> by_generation;
    bool told = false;  // that a shard could not be written
  };
  struct Order {
    TimePoint since;
    Manifest manifest;  // without files and tensors
    std::vector<ManifestFile> files;
  };

  bool IsComplete(const Shards& shards) const;
  void CommitIfComplete();
  void GiveUpBefore(int iteration);
  void Loop();
  Result Carry(const Order& order);
  void Report(Result result);

  const Options options_;
  const CheckpointFolder folder_;
  const Clock& clock_;
  const std::function<void()> wake_;
  std::map<int, Pending> pending_;  // by iteration
  std::map<int, double> losses_;    // of iterations that are done, the newest ones
  int newest_ = 0;                  // iteration of the newest checkpoint that was ordered

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::queue<Order> orders_;
  std::vector<Result> results_;
  bool committing_ = false;
  bool finishing_ = false;
  std::thread thread_;  // last
};

}  // namespace recycle

#endif  // RECYCLE_APP_CHECKPOINT_COMMITTER_H_
