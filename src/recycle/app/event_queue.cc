#include "recycle/app/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "recycle/base/check.h"

namespace recycle {

EventQueue::EventQueue() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  RC_CHECK(wake_ >= 0) << "eventfd: errno " << errno;
}

EventQueue::~EventQueue() { close(wake_); }

void EventQueue::Push(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

std::vector<Event> EventQueue::Drain() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(wake_, &count, sizeof(count));
  return std::exchange(events_, {});
}

}  // namespace recycle
