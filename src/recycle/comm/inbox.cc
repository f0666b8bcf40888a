#include "recycle/comm/inbox.h"

#include "recycle/base/check.h"

namespace recycle {

void Inbox::Deliver(Frame frame) {
  const std::lock_guard lock(mutex_);
  ++counters_.frames;
  counters_.bytes += static_cast<std::int64_t>(frame.payload.size());
  if (frame.generation < generation_) {
    ++counters_.stale_frames;
    return;
  }
  const auto [place, is_new] = waiting_.try_emplace({frame.generation, frame.key});
  if (!is_new) {
    ++counters_.duplicate_frames;
    return;
  }
  place->second = std::move(frame);
  changed_.notify_all();
}

void Inbox::StartGeneration(Generation generation) {
  const std::lock_guard lock(mutex_);
  RC_CHECK(generation >= generation_)
      << "generation " << generation << " after generation " << generation_;
  generation_ = generation;
  while (!waiting_.empty() && waiting_.begin()->first.first < generation_) {
    waiting_.erase(waiting_.begin());
    ++counters_.stale_frames;
  }
  changed_.notify_all();
}

StatusOr<Frame> Inbox::Take(const FrameKey& key) {
  std::unique_lock lock(mutex_);
  auto found = waiting_.end();
  changed_.wait(lock, [&] {
    found = waiting_.find({generation_, key});
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
