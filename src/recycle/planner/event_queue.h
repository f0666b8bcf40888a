// The list scheduler's future: what happens when, as a ring of buckets (a calendar queue).
//
// No event lies further ahead than the longest duration plus send, so a ring of that many ticks
// holds all of them; a bit per bucket finds the next time in a few ns. A worker has at most one
// event ahead (it becomes free) and a slot at most one (its forward or its gradient arrives), so
// the buckets are linked lists through arrays indexed by worker and slot: nothing is ever allotted.
//
// Not thread-safe.
#ifndef RECYCLE_PLANNER_EVENT_QUEUE_H_
#define RECYCLE_PLANNER_EVENT_QUEUE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace recycle {

class EventQueue {
 public:
  enum Type : std::size_t { kForwardArrives, kInputArrives, kWorkerFree };

  EventQueue(std::int64_t longest_delay, int num_slots, int num_workers)
      : ring_(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(longest_delay, 63)) +
                            1)),
        occupied_(ring_.size() / 64, 0),
        next_slot_(static_cast<std::size_t>(num_slots)),
        next_worker_(static_cast<std::size_t>(num_workers)) {}

  void Clear() {
    std::fill(ring_.begin(), ring_.end(), Bucket());
    std::fill(occupied_.begin(), occupied_.end(), 0);
    now_ = 0;
    size_ = 0;
  }

  bool empty() const { return size_ == 0; }
  std::int64_t now() const { return now_; }

  // `time` is now() at the earliest. `payload` is a slot, or a worker for kWorkerFree.
  void Push(std::int64_t time, Type type, int payload) {
    const std::uint64_t index = static_cast<std::uint64_t>(time) & (ring_.size() - 1);
    occupied_[index / 64] |= std::uint64_t{1} << (index % 64);
    Bucket& bucket = ring_[index];
    auto& next = type == kWorkerFree ? next_worker_ : next_slot_;
    next[static_cast<std::size_t>(payload)] = bucket.head[type];
    bucket.head[type] = payload;
    ++size_;
  }

  // Moves now() to the next time with events, takes all of that time and calls `handle(type,
  // payload)` for each: by type, then by payload. Must not be empty.
  template <typename Handler>
  void TakeNext(Handler handle) {
    const std::uint64_t index = NextOccupied();
    now_ +=
        static_cast<std::int64_t>((index - static_cast<std::uint64_t>(now_)) & (ring_.size() - 1));
    occupied_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
    const Bucket bucket = ring_[index];
    ring_[index] = Bucket();
    for (const Type type : {kForwardArrives, kInputArrives, kWorkerFree}) {
      const auto& next = type == kWorkerFree ? next_worker_ : next_slot_;
      taken_.clear();
      for (int at = bucket.head[type]; at >= 0; at = next[static_cast<std::size_t>(at)]) {
        taken_.push_back(at);
      }
      if (type != kWorkerFree) std::sort(taken_.begin(), taken_.end());
      for (const int payload : taken_) handle(type, payload);
      size_ -= taken_.size();
    }
  }

 private:
  struct Bucket {
    std::int32_t head[3] = {-1, -1, -1};  // by type
  };

  std::uint64_t NextOccupied() const {
    const std::uint64_t start = static_cast<std::uint64_t>(now_) & (ring_.size() - 1);
    std::size_t word = start / 64;
    std::uint64_t bits = occupied_[word] & (~std::uint64_t{0} << (start % 64));
    while (bits == 0) {
      word = (word + 1) & (occupied_.size() - 1);
      bits = occupied_[word];
    }
    return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
  }

  std::vector<Bucket> ring_;  // a power of two, by time
  std::vector<std::uint64_t> occupied_;
  std::vector<std::int32_t> next_slot_;
  std::vector<std::int32_t> next_worker_;
  std::vector<std::int32_t> taken_;
  std::int64_t now_ = 0;
  std::size_t size_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_PLANNER_EVENT_QUEUE_H_
