#include "recycle/simulator/job_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <set>

#include "recycle/base/index.h"

namespace recycle {
namespace {

// The time at which `wanted` nodes are up for the first time.
StatusOr<double> FirstTimeWith(const FailureTrace& trace, int wanted) {
  int up = 0;
  int most = 0;
  for (const NodeEvent& event : trace.events) {
    up += event.up ? 1 : -1;
    most = std::max(most, up);
    if (up >= wanted) return event.time_s;
  }
  return absl::InvalidArgumentError(
      fmt::format("the job needs {} nodes, and at most {} of the trace are ever up (hint: fewer "
                  "pipelines, or --start to begin with what is there)",
                  wanted, most));
}

// Who stands in which block.
class Blocks {
 public:
  Blocks(int num_blocks, int num_nodes)
      : own_block_(Index(num_nodes), -1), block_of_(Index(num_nodes), -1) {
    for (int block = 0; block < num_blocks; ++block) free_.insert(free_.end(), block);
  }

  bool HasFree() const { return !free_.empty(); }
  int BlockOf(int node) const { return block_of_[Index(node)]; }

  int Take(int node) {
    const int own = own_block_[Index(node)];
    const int block = own >= 0 && free_.contains(own) ? own : *free_.begin();
    free_.erase(block);
    block_of_[Index(node)] = block;
    own_block_[Index(node)] = block;
    return block;
  }

  int Leave(int node) {
    const int block = block_of_[Index(node)];
    block_of_[Index(node)] = -1;
    free_.insert(block);
    return block;
  }

  int num_free() const { return static_cast<int>(free_.size()); }
  const std::set<int>& free() const { return free_; }

 private:
  std::set<int> free_;
  std::vector<int> own_block_;  // where a node stood last
  std::vector<int> block_of_;
};

// Replays a trace from the start on.
class TimelineMaker {
 public:
  TimelineMaker(const FailureTrace& trace, const TimelineOptions& options, double start_s,
                double end_s)
      : trace_(trace),
        start_s_(start_s),
        end_s_(end_s),
        usable_after_s_(options.usable_after_s),
        num_blocks_(options.num_blocks),
        blocks_(options.num_blocks, trace.num_nodes),
        seen_(Index(trace.num_nodes), false),
        usable_(Index(trace.num_nodes), false) {}

  JobTimeline Make() {
    std::size_t next = PlaceAtStart();
    timeline_.filled.assign(Index(num_blocks_), true);
    for (const int block : blocks_.free()) timeline_.filled[Index(block)] = false;
    now_s_ = start_s_;
    for (; next < trace_.events.size() && trace_.events[next].time_s <= end_s_; ++next) {
      const NodeEvent& event = trace_.events[next];
      ArriveUntil(event.time_s);
      MoveTo(event.time_s);
      event.up ? Come(event.node) : Go(event.node);
    }
    ArriveUntil(end_s_);
    MoveTo(end_s_);
    timeline_.duration_s = end_s_ - start_s_;
    const auto failures = static_cast<double>(timeline_.failures);
    constexpr double kNever = std::numeric_limits<double>::infinity();
    timeline_.mtbf_s = timeline_.failures > 0 ? timeline_.duration_s / failures : kNever;
    timeline_.mean_repair_s = timeline_.failures > 0 ? free_s_ / failures : 0;
    return std::move(timeline_);
  }

 private:
  // Everything up at the start stands in a block or waits. Returns the first event after it.
  std::size_t PlaceAtStart() {
    std::vector<bool> up(Index(trace_.num_nodes), false);
    std::size_t next = 0;
    for (; next < trace_.events.size() && trace_.events[next].time_s <= start_s_; ++next) {
      up[Index(trace_.events[next].node)] = trace_.events[next].up;
      seen_[Index(trace_.events[next].node)] = true;
    }
    for (int node = 0; node < trace_.num_nodes; ++node) {
      if (!up[Index(node)]) continue;
      ++num_up_;
      Settle(node);
    }
    timeline_.events.clear();  // those of the start are its state
    return next;
  }

  void MoveTo(double time_s) {
    timeline_.node_s += num_up_ * (time_s - now_s_);
    free_s_ += blocks_.num_free() * (time_s - now_s_);
    now_s_ = time_s;
  }

  // New instances that have become usable by `time_s`.
  void ArriveUntil(double time_s) {
    while (!arrivals_.empty() && arrivals_.top().first <= time_s) {
      const auto [usable_s, node] = arrivals_.top();
      arrivals_.pop();
      if (pending_[Index(node)] != usable_s) continue;  // gone in the meantime
      MoveTo(usable_s);
      pending_[Index(node)] = -1;
      Settle(node);
    }
  }

  void Come(int node) {
    ++num_up_;
    const bool is_new = !seen_[Index(node)];
    seen_[Index(node)] = true;
    if (!is_new || usable_after_s_ == 0) return Settle(node);
    pending_.resize(Index(trace_.num_nodes), -1);
    pending_[Index(node)] = now_s_ + usable_after_s_;
    arrivals_.push({now_s_ + usable_after_s_, node});
  }

  void Go(int node) {
    --num_up_;
    if (!pending_.empty()) pending_[Index(node)] = -1;
    if (!usable_[Index(node)]) return;
    usable_[Index(node)] = false;
    if (blocks_.BlockOf(node) < 0) {
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), node));
      return;
    }
    ++timeline_.failures;
    timeline_.events.push_back({now_s_ - start_s_, blocks_.Leave(node), false});
    if (waiting_.empty()) return;
    const int relief = waiting_.front();
    waiting_.pop_front();
    timeline_.events.push_back({now_s_ - start_s_, blocks_.Take(relief), true});
  }

  // A usable node takes a block, or waits for one.
  void Settle(int node) {
    usable_[Index(node)] = true;
    if (!blocks_.HasFree()) {
      waiting_.push_back(node);
      return;
    }
    timeline_.events.push_back({now_s_ - start_s_, blocks_.Take(node), true});
  }

  using Arrival = std::pair<double, int>;

  const FailureTrace& trace_;
  const double start_s_;
  const double end_s_;
  const double usable_after_s_;
  const int num_blocks_;
  Blocks blocks_;
  std::deque<int> waiting_;
  std::vector<bool> seen_;       // by node: it has been up before
  std::vector<bool> usable_;     // by node: it stands in a block or waits
  std::vector<double> pending_;  // by node: when the new instance will be usable; -1: it is not new
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  int num_up_ = 0;
  double now_s_ = 0;
  double free_s_ = 0;  // of free blocks
  JobTimeline timeline_;
};

}  // namespace

StatusOr<JobTimeline> MakeJobTimeline(const FailureTrace& trace, const TimelineOptions& options) {
  double start_s = options.start_s.value_or(0);
  if (!options.start_s.has_value()) {
    RC_ASSIGN_OR_RETURN(start_s, FirstTimeWith(trace, options.num_blocks));
  }
  const double end_s = options.duration_s.has_value() ? start_s + *options.duration_s : trace.end_s;
  if (!(end_s > start_s)) {
    return absl::InvalidArgumentError(
        fmt::format("the job starts at {} h and the trace ends at {} h; it must end later (hint: "
                    "--hours says how long the job runs)",
                    start_s / 3600, end_s / 3600));
  }
  return TimelineMaker(trace, options, start_s, end_s).Make();
}

}  // namespace recycle
