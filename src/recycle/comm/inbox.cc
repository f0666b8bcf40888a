#include "recycle/comm/inbox.h"

#include <algorithm>

#include "recycle/base/check.h"

namespace recycle {

bool Inbox::IsClosed(const FrameKey& key) const {
  return IsBoundary(key.kind) && key.iteration < first_iteration_;
}

void Inbox::Deliver(Frame frame) {
  if (on_arrival_) on_arrival_(frame.key, frame.payload.size());
  const std::lock_guard lock(mutex_);
  ++counters_.frames;
  counters_.bytes += static_cast<std::int64_t>(frame.payload.size());
  if (frame.generation < promised_ || IsClosed(frame.key)) {
    ++counters_.stale_frames;
  } else if (frame.generation > generation_) {
    const auto [place, is_new] = newer_.try_emplace({frame.generation, frame.key});
    if (is_new) {
      place->second = std::move(frame);
    } else {
      ++counters_.duplicate_frames;
    }
  } else {
    Add(std::move(frame));
  }
}

void Inbox::Add(Frame frame) {
  const auto [place, is_new] = waiting_.try_emplace(frame.key);
  if (!is_new) {
    ++counters_.duplicate_frames;
    return;
  }
  place->second = std::move(frame);
  changed_.notify_all();
}

// What came for a generation that never ran here keeps its boundary tensors, like any other.
void Inbox::PromiseLocked(Generation generation) {
  promised_ = std::max(promised_, generation);
  while (!newer_.empty() && newer_.begin()->first.first < promised_) {
    Frame frame = std::move(newer_.extract(newer_.begin()).mapped());
    if (IsBoundary(frame.key.kind)) {
      Add(std::move(frame));
    } else {
      ++counters_.stale_frames;
    }
  }
}

std::vector<FrameKey> Inbox::Promise(Generation generation) {
  const std::lock_guard lock(mutex_);
  PromiseLocked(generation);
  std::vector<FrameKey> keys;
  for (const auto& [key, frame] : waiting_) {
    if (IsBoundary(key.kind)) keys.push_back(key);
  }
  return keys;
}

void Inbox::StartGeneration(Generation generation) {
  const std::lock_guard lock(mutex_);
  RC_CHECK(generation >= generation_)
      << "generation " << generation << " after generation " << generation_;
  if (generation == generation_) return;
  PromiseLocked(generation);
  generation_ = generation;
  counters_.stale_frames += static_cast<std::int64_t>(
      std::erase_if(waiting_, [](const auto& entry) { return !IsBoundary(entry.first.kind); }));
  while (!newer_.empty() && newer_.begin()->first.first == generation_) {
    Add(std::move(newer_.extract(newer_.begin()).mapped()));
  }
  changed_.notify_all();
}

void Inbox::DropBefore(int iteration) {
  const std::lock_guard lock(mutex_);
  first_iteration_ = std::max(first_iteration_, iteration);
  counters_.stale_frames += static_cast<std::int64_t>(
      std::erase_if(waiting_, [&](const auto& entry) { return IsClosed(entry.first); }) +
      std::erase_if(newer_, [&](const auto& entry) { return IsClosed(entry.first.second); }));
}

void Inbox::DropFrom(int iteration) {
  const std::lock_guard lock(mutex_);
  counters_.stale_frames +=
      static_cast<std::int64_t>(std::erase_if(waiting_, [iteration](const auto& entry) {
        return IsBoundary(entry.first.kind) && entry.first.iteration >= iteration;
      }));
}

void Inbox::StartOver(Generation generation, int iteration) {
  const std::lock_guard lock(mutex_);
  PromiseLocked(generation);
  counters_.stale_frames += static_cast<std::int64_t>(waiting_.size());
  waiting_.clear();
  first_iteration_ = iteration;
}

StatusOr<Frame> Inbox::Take(const FrameKey& key) {
  std::unique_lock lock(mutex_);
  auto found = waiting_.end();
  changed_.wait(lock, [&] {
    found = waiting_.find(key);
    return !interrupt_.ok() || found != waiting_.end();
  });
  if (!interrupt_.ok()) return interrupt_;
  return std::move(waiting_.extract(found).mapped());
}

void Inbox::Interrupt(Status why) {
  RC_CHECK(!why.ok()) << "an interrupt needs a reason";
  const std::lock_guard lock(mutex_);
  interrupt_ = std::move(why);
  changed_.notify_all();
}

void Inbox::ClearInterrupt() {
  const std::lock_guard lock(mutex_);
  interrupt_ = OkStatus();
}

InboxCounters Inbox::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace recycle
