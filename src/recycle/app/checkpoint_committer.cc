#include "recycle/app/checkpoint_committer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "recycle/base/log.h"

namespace recycle {
namespace {

// Losses are kept of so many iterations: a shard is on its way no longer than that.
constexpr std::size_t kLossesKept = 1000;

}  // namespace

CheckpointCommitter::CheckpointCommitter(Options options, const Clock& clock,
                                         std::function<void()> wake)
    : options_(std::move(options)),
      folder_(options_.folder),
      clock_(clock),
      wake_(std::move(wake)),
      thread_([this] { Loop(); }) {}

void CheckpointCommitter::OnShard(const ShardWritten& shard) {
  if (shard.version <= newest_) {
    // Saved again by a later generation, though it had been complete.
    std::error_code error;
    if (!shard.file.empty()) {
      std::filesystem::remove(folder_.Path(shard.version) + "/" + shard.file, error);
    }
    return;
  }
  GiveUpBefore(shard.version);
  Pending& pending = pending_[shard.version];
  if (pending.by_generation.empty()) pending.since = clock_.Now();
  Shards& shards = pending.by_generation[shard.generation];
  if (shard.error.empty()) {
    shards.push_back(shard);
    CommitIfComplete();
  } else if (!pending.told) {
    pending.told = true;
    Report({.iteration = shard.version, .error = shard.error});
  }
}

void CheckpointCommitter::OnIteration(int iteration, double loss) {
  losses_[iteration] = loss;
  if (losses_.size() > kLossesKept) losses_.erase(losses_.begin());
  CommitIfComplete();
}

bool CheckpointCommitter::IsComplete(const Shards& shards) const {
  int layers = 0;
  for (const ShardWritten& shard : shards) layers += shard.layer_end - shard.layer_begin;
  return layers == options_.num_layers;
}

void CheckpointCommitter::CommitIfComplete() {
  for (const auto& [iteration, pending] : pending_) {
    const auto loss = losses_.find(iteration);
    if (loss == losses_.end()) continue;
    const auto complete =
        std::find_if(pending.by_generation.begin(), pending.by_generation.end(),
                     [this](const auto& entry) { return IsComplete(entry.second); });
    if (complete == pending.by_generation.end()) continue;
    Order order{.since = pending.since,
                .manifest = {.iteration = iteration,
                             .generation = complete->first.value(),
                             .loss = loss->second,
                             .identity = options_.identity,
                             .files = {},
                             .tensors = {}},
                .files = {}};
    for (const ShardWritten& shard : complete->second) {
      order.files.push_back({.name = shard.file,
                             .bytes = static_cast<std::uint64_t>(shard.bytes),
                             .sha256 = shard.sha256});
    }
    newest_ = iteration;
    pending_.erase(pending_.begin(), std::next(pending_.find(iteration)));
    const std::lock_guard lock(mutex_);
    orders_.push(std::move(order));
    changed_.notify_all();
    return;
  }
}

void CheckpointCommitter::GiveUpBefore(int iteration) {
  while (!pending_.empty() && pending_.begin()->first < iteration) {
    if (!pending_.begin()->second.told) {
      Report({.iteration = pending_.begin()->first,
              .error = "the workers that were to write it died meanwhile"});
    }
    pending_.erase(pending_.begin());
  }
}

void CheckpointCommitter::StartOver(int iteration, bool is_complete) {
  pending_.clear();
  losses_.erase(losses_.upper_bound(iteration), losses_.end());
  if (is_complete) newest_ = iteration;
}

void CheckpointCommitter::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return orders_.empty() && !committing_; });
}

void CheckpointCommitter::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CheckpointCommitter::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return finishing_ || !orders_.empty(); });
    if (orders_.empty()) return;
    const Order order = std::move(orders_.front());
    orders_.pop();
    committing_ = true;
    lock.unlock();
    Report(Carry(order));
    wake_();
    lock.lock();
    committing_ = false;
    changed_.notify_all();
  }
}

CheckpointCommitter::Result CheckpointCommitter::Carry(const Order& order) {
  Result result{.iteration = order.manifest.iteration, .error = ""};
  const StatusOr<Manifest> manifest =
      DescribeShards(folder_.Path(order.manifest.iteration), order.manifest, order.files);
  Status status = manifest.status();
  if (manifest.ok()) {
    status = folder_.Commit(*manifest, options_.keep, [&](CommitPoint point) {
      if (options_.at_point) options_.at_point(point, order.manifest.iteration);
    });
    result.bytes = manifest->num_bytes();
  }
  result.time = clock_.Now() - order.since;
  result.error = std::string(status.message());
  return result;
}

void CheckpointCommitter::Report(Result result) {
  const std::lock_guard lock(mutex_);
  results_.push_back(std::move(result));
}

std::vector<CheckpointCommitter::Result> CheckpointCommitter::TakeResults() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

}  // namespace recycle
