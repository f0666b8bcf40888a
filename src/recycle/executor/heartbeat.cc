#include "recycle/executor/heartbeat.h"

#include <fstream>
#include <string>

namespace recycle {
namespace {

// Of the interval; after a step the next beat does not wait for all of them.
constexpr int kQuarters = 4;

}  // namespace

std::int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    std::int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

HeartbeatThread::HeartbeatThread(std::chrono::milliseconds interval, const Position& position,
                                 ControlLink& control, FaultInjector& injector)
    : interval_(interval),
      position_(position),
      control_(control),
      injector_(injector),
      thread_([this] { Loop(); }) {}

HeartbeatThread::~HeartbeatThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void HeartbeatThread::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const int version = position_.version;
    injector_.At(FaultPoint::kHeartbeat, version);
    const ActionWatch::Reading action = position_.watch.Read();
    control_.Send(Heartbeat{.generation = Generation(position_.generation.load()),
                            .version = version,
                            .peak_bytes = PeakResidentBytes(),
                            .actions_done = action.actions_done,
                            .running_ticks = action.running_ticks,
                            .ns_per_tick = action.ns_per_tick});
    lock.lock();
    int quarters = 0;
    do {
      stopped_.wait_for(lock, interval_ / kQuarters, [this] { return stop_; });
    } while (++quarters < kQuarters && !stop_ && position_.version == version);
  }
}

}  // namespace recycle
