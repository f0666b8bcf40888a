#include "recycle/executor/action_watch.h"

namespace recycle {
namespace {

// The pace is that of the last twenty actions or so.
constexpr double kMemory = 0.95;

}  // namespace

void ActionWatch::Expect(Ticks planned) {
  const std::lock_guard lock(mutex_);
  planned_ = planned;
  runs_ = false;
}

void ActionWatch::Start() {
  const std::lock_guard lock(mutex_);
  runs_ = true;
}

void ActionWatch::Finish(std::optional<Duration> took) {
  const std::lock_guard lock(mutex_);
  runs_ = false;
  if (!took || planned_ == 0) return;
  ++actions_done_;
  ticks_done_ = kMemory * ticks_done_ + static_cast<double>(planned_);
  ns_done_ = kMemory * ns_done_ + static_cast<double>(took->count());
}

ActionWatch::Reading ActionWatch::Read() const {
  const std::lock_guard lock(mutex_);
  return {.actions_done = actions_done_,
          .running_ticks = runs_ ? planned_ : 0,
          .ns_per_tick = ticks_done_ > 0 ? ns_done_ / ticks_done_ : 0};
}

}  // namespace recycle
