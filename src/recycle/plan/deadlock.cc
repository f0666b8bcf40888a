#include "recycle/plan/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "recycle/base/index.h"

namespace recycle {
namespace {

constexpr std::int32_t kNobody = -1;

bool IsInputBackward(ActionKind kind) {
  return kind == ActionKind::kBackwardInput || kind == ActionKind::kBackward;
}

// Kahn's algorithm. The machine edges of a worker form a chain, so its first action that has not
// run stands for all that follow; what remains of the in-degree of that action is whether its
// input, or its barrier, is there.
class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan), stages_(plan.parallel.num_stages()) {
    const std::size_t outputs =
        2 * Index(stages_) * Index(plan.micro_batches) * Index(plan.parallel.data);
    outputs_.assign(outputs, plan.initial.empty() ? Output{} : Output{.ready = true});
    heads_.assign(plan.workers.size(), 0);
    unreduced_.assign(Index(stages_), 0);
    at_barrier_.resize(Index(stages_) + 1);
    for (std::size_t w = plan.workers.size(); w-- > 0;) {
      able_.push_back(static_cast<std::int32_t>(w));
      CountProducers(plan.workers[w].actions);
    }
    for (const std::int32_t members : unreduced_) open_barriers_ += members == 0 ? 1 : 0;
  }

  // Runs all that can run; true if nothing is left.
  bool Drain() {
    while (!able_.empty()) {
      const std::int32_t worker = able_.back();
      able_.pop_back();
      Advance(worker);
    }
    for (std::size_t w = 0; w < heads_.size(); ++w) {
      if (heads_[w] < plan_.workers[w].actions.size()) return false;
    }
    return true;
  }

  // After Drain: workers that each wait for the next, with the position where they stand.
  std::vector<std::pair<std::size_t, std::size_t>> FindCycle() const {
    std::vector<std::pair<std::size_t, std::size_t>> path;
    std::vector<bool> seen(plan_.workers.size(), false);
    std::size_t worker = 0;
    while (heads_[worker] == plan_.workers[worker].actions.size()) ++worker;
    while (!seen[worker]) {
      seen[worker] = true;
      path.emplace_back(worker, heads_[worker]);
      worker = BlockerOf(worker);
    }
    const auto first = std::find_if(path.begin(), path.end(),
                                    [&](const auto& step) { return step.first == worker; });
    path.erase(path.begin(), first);
    return path;
  }

 private:
  // What an F (or an I or B) hands to the neighbouring stage.
  struct Output {
    bool ready = false;
    std::int32_t waiter = kNobody;
  };

  Output& OutputOf(std::int32_t stage, MicroBatch b, bool forward) {
    return outputs_[2 * ((Index(b.home.value()) * Index(stages_) + Index(stage)) *
                             Index(plan_.micro_batches) +
                         Index(b.index)) +
                    (forward ? 0 : 1)];
  }

  // Barrier members, and for the rest of an iteration what is still to come: the other outputs
  // exist.
  void CountProducers(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      const bool forward = action.kind == ActionKind::kForward;
      if (action.kind == ActionKind::kReduceGrad) ++unreduced_[Index(action.stage.value())];
      if (plan_.initial.empty() || !(forward || IsInputBackward(action.kind))) continue;
      OutputOf(action.stage.value(), action.micro_batch, forward).ready = false;
    }
  }

  void Advance(std::int32_t worker) {
    const std::vector<Action>& actions = plan_.workers[Index(worker)].actions;
    std::size_t& head = heads_[Index(worker)];
    // Two cache lines; there are more orders in turn than hardware follows.
    constexpr std::size_t kAhead = 8;
    if (head + kAhead < actions.size()) __builtin_prefetch(&actions[head + kAhead]);
    for (; head < actions.size(); ++head) {
      if (!CanRun(worker, actions[head])) return;
      Publish(actions[head]);
    }
  }

  // Whether `action` can run now; if not, its worker is woken when that may have changed.
  bool CanRun(std::int32_t worker, const Action& action) {
    const std::int32_t s = action.stage.value();
    switch (action.kind) {
      case ActionKind::kForward:
        return s == 0 || Await(worker, OutputOf(s - 1, action.micro_batch, true));
      case ActionKind::kBackwardInput:
      case ActionKind::kBackward:
        return s + 1 == stages_ || Await(worker, OutputOf(s + 1, action.micro_batch, false));
      case ActionKind::kBackwardWeight:
      case ActionKind::kStep:
        return true;
      case ActionKind::kReduceGrad:
        return PassBarrier(worker, s);
      case ActionKind::kValidate:
        if (plan_.options.staggered || open_barriers_ == stages_) return true;
        at_barrier_.back().push_back(worker);
        return false;
    }
    return true;
  }

  static bool Await(std::int32_t worker, Output& output) {
    if (!output.ready) output.waiter = worker;
    return output.ready;
  }

  // A REDUCE_GRAD ends when all its members have reached it.
  bool PassBarrier(std::int32_t worker, std::int32_t stage) {
    std::vector<std::int32_t>& members = at_barrier_[Index(stage)];
    std::int32_t& missing = unreduced_[Index(stage)];
    if (missing == 0) return true;
    members.push_back(worker);
    if (static_cast<std::int32_t>(members.size()) < missing) return false;
    missing = 0;
    members.pop_back();  // this worker goes on by itself
    able_.insert(able_.end(), members.begin(), members.end());
    if (++open_barriers_ == stages_) {
      able_.insert(able_.end(), at_barrier_.back().begin(), at_barrier_.back().end());
    }
    return true;
  }

  void Publish(const Action& action) {
    const bool forward = action.kind == ActionKind::kForward;
    if (!forward && !IsInputBackward(action.kind)) return;
    Output& output = OutputOf(action.stage.value(), action.micro_batch, forward);
    output.ready = true;
    if (output.waiter != kNobody) able_.push_back(output.waiter);
  }

  // A worker that must run something before `worker` can go on.
  std::size_t BlockerOf(std::size_t worker) const {
    const Action& action = plan_.workers[worker].actions[heads_[worker]];
    const bool forward = action.kind == ActionKind::kForward;
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
      const std::vector<Action>& actions = plan_.workers[w].actions;
      for (std::size_t p = heads_[w]; p < actions.size(); ++p) {
        const Action& other = actions[p];
        if (action.kind == ActionKind::kValidate) {
          if (other.kind == ActionKind::kReduceGrad) return w;
        } else if (action.kind == ActionKind::kReduceGrad) {
          if (other == action && p > heads_[w]) return w;
        } else if (other.stage.value() == action.stage.value() + (forward ? -1 : 1) &&
                   other.micro_batch == action.micro_batch &&
                   (forward ? other.kind == ActionKind::kForward : IsInputBackward(other.kind))) {
          return w;
        }
      }
    }
    return worker;
  }

  const Plan& plan_;
  const std::int32_t stages_;
  std::vector<Output> outputs_;
  std::vector<std::size_t> heads_;       // per worker: its first action that has not run
  std::vector<std::int32_t> unreduced_;  // per stage: members of its barrier, 0 once it is open
  std::vector<std::vector<std::int32_t>> at_barrier_;  // who waits there; last: for all barriers
  std::int32_t open_barriers_ = 0;
  std::vector<std::int32_t> able_;  // workers to try
};

}  // namespace

std::vector<Violation> FindDeadlock(const Plan& plan, std::size_t limit) {
  Run run(plan);
  if (run.Drain()) return {};
  std::vector<Violation> violations;
  const auto cycle = run.FindCycle();
  for (std::size_t i = 0; i < cycle.size() && violations.size() < limit; ++i) {
    const auto [worker, position] = cycle[i];
    const WorkerSchedule& entry = plan.workers[worker];
    const WorkerSchedule& next = plan.workers[cycle[(i + 1) % cycle.size()].first];
    violations.push_back(
        {3, entry.worker, position,
         fmt::format("deadlock of {} worker(s): worker {} stands at {} and waits for worker {}",
                     cycle.size(), ToString(entry.worker), ToString(entry.actions[position]),
                     ToString(next.worker))});
  }
  return violations;
}

}  // namespace recycle
