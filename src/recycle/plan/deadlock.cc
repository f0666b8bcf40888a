#include "recycle/plan/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace recycle {
namespace {

std::size_t Size(std::int64_t value) { return static_cast<std::size_t>(value); }

bool IsInputBackward(ActionKind kind) {
  return kind == ActionKind::kBackwardInput || kind == ActionKind::kBackward;
}

// Nodes are all actions, worker by worker, then one barrier a stage that opens when all its
// REDUCE_GRADs are reached, then one that opens when all those barriers are open.
class WaitGraph {
 public:
  explicit WaitGraph(const Plan& plan) : plan_(plan), stages_(plan.parallel.num_stages()) {
    for (const WorkerSchedule& entry : plan.workers) {
      first_node_.push_back(static_cast<std::int32_t>(actions_.size()));
      actions_.insert(actions_.end(), entry.actions.begin(), entry.actions.end());
    }
    first_node_.push_back(static_cast<std::int32_t>(actions_.size()));
    IndexProducers();
    IndexBarriers();
    CountInputs();
  }

  // Takes away every action that can run; true if none is left.
  bool Drain() {
    std::vector<std::int32_t> ready;
    ready.reserve(waits_.size());
    for (std::size_t node = 0; node < waits_.size(); ++node) {
      if (waits_[node] == 0) ready.push_back(static_cast<std::int32_t>(node));
    }
    for (std::size_t next = 0; next < ready.size(); ++next) Release(ready[next], ready);
    return ready.size() == waits_.size();
  }

  // After Drain: a cycle of actions, each of which waits for the next.
  std::vector<std::pair<std::size_t, std::size_t>> FindCycle() const {
    std::vector<std::pair<std::size_t, std::size_t>> path;  // (worker, position)
    std::size_t worker = 0;
    while (Head(worker) == EndOf(worker)) ++worker;
    std::vector<bool> seen(plan_.workers.size(), false);
    while (!seen[worker]) {
      seen[worker] = true;
      path.emplace_back(worker, Size(Head(worker) - first_node_[worker]));
      worker = WorkerOf(BlockerOf(Head(worker)));
    }
    while (path.front().first != worker) path.erase(path.begin());
    return path;
  }

 private:
  // Where the F (half 0), or the I or B (half 1), of a micro-batch is.
  std::size_t Slot(std::int32_t stage, MicroBatch b, int half) const {
    return ((Size(stage) * Size(plan_.micro_batches) + Size(b.index)) * Size(plan_.parallel.data) +
            Size(b.home.value())) *
               2 +
           Size(half);
  }

  void IndexProducers() {
    producers_.assign(2 * Size(stages_) * Size(plan_.micro_batches) * Size(plan_.parallel.data),
                      -1);
    for (std::size_t node = 0; node < actions_.size(); ++node) {
      const Action& action = actions_[node];
      const std::int32_t self = static_cast<std::int32_t>(node);
      if (action.kind == ActionKind::kForward) {
        producers_[Slot(action.stage.value(), action.micro_batch, 0)] = self;
      } else if (IsInputBackward(action.kind)) {
        producers_[Slot(action.stage.value(), action.micro_batch, 1)] = self;
      }
    }
  }

  void IndexBarriers() {
    barrier_members_.resize(Size(stages_));
    for (std::size_t node = 0; node < actions_.size(); ++node) {
      const Action& action = actions_[node];
      const std::int32_t self = static_cast<std::int32_t>(node);
      if (action.kind == ActionKind::kReduceGrad) {
        barrier_members_[Size(action.stage.value())].push_back(self);
      }
      if (action.kind == ActionKind::kValidate && !plan_.options.staggered) {
        validates_.push_back(self);
      }
    }
  }

  std::int32_t Barrier(std::int32_t stage) const {
    return static_cast<std::int32_t>(actions_.size()) + stage;
  }
  std::int32_t AllReduced() const { return Barrier(stages_); }

  // The action whose output `action` takes from another stage, or -1.
  std::int32_t InputOf(const Action& action) const {
    const std::int32_t s = action.stage.value();
    if (action.kind == ActionKind::kForward && s > 0) {
      return producers_[Slot(s - 1, action.micro_batch, 0)];
    }
    if (IsInputBackward(action.kind) && s + 1 < stages_) {
      return producers_[Slot(s + 1, action.micro_batch, 1)];
    }
    return -1;
  }

  void CountInputs() {
    waits_.assign(Size(AllReduced()) + 1, 0);
    for (std::size_t w = 0; w + 1 < first_node_.size(); ++w) {
      for (std::int32_t node = first_node_[w]; node < first_node_[w + 1]; ++node) {
        waits_[Size(node)] = (node > first_node_[w] ? 1 : 0) + (InputOf(actions_[Size(node)]) >= 0);
      }
    }
    for (const std::int32_t validate : validates_) ++waits_[Size(validate)];
    for (std::int32_t s = 0; s < stages_; ++s) {
      waits_[Size(Barrier(s))] = static_cast<std::int32_t>(barrier_members_[Size(s)].size());
    }
    waits_.back() = stages_;
  }

  void Satisfy(std::int32_t node, std::vector<std::int32_t>& ready) {
    if (--waits_[Size(node)] == 0) ready.push_back(node);
  }

  // Lets everything that waits for `node` go on.
  void Release(std::int32_t node, std::vector<std::int32_t>& ready) {
    if (node == AllReduced()) {
      for (const std::int32_t validate : validates_) Satisfy(validate, ready);
      return;
    }
    if (node >= Barrier(0)) {
      for (const std::int32_t member : barrier_members_[Size(node - Barrier(0))]) {
        ReleaseSuccessor(member, ready);
      }
      Satisfy(AllReduced(), ready);
      return;
    }
    const Action& action = actions_[Size(node)];
    if (action.kind == ActionKind::kReduceGrad) {
      Satisfy(Barrier(action.stage.value()), ready);
      return;  // its worker goes on when the barrier opens
    }
    ReleaseSuccessor(node, ready);
    ReleaseConsumer(node, action, ready);
  }

  void ReleaseSuccessor(std::int32_t node, std::vector<std::int32_t>& ready) {
    const bool last = std::binary_search(first_node_.begin(), first_node_.end(), node + 1);
    if (!last) Satisfy(node + 1, ready);
  }

  // The action of a neighbouring stage that takes the output of `node`.
  void ReleaseConsumer(std::int32_t node, const Action& action, std::vector<std::int32_t>& ready) {
    const std::int32_t s = action.stage.value();
    std::int32_t consumer = -1;
    if (action.kind == ActionKind::kForward && s + 1 < stages_) {
      consumer = producers_[Slot(s + 1, action.micro_batch, 0)];
    } else if (IsInputBackward(action.kind) && s > 0) {
      consumer = producers_[Slot(s - 1, action.micro_batch, 1)];
    }
    if (consumer >= 0) Satisfy(consumer, ready);
  }

  std::size_t WorkerOf(std::int32_t node) const {
    const auto after = std::upper_bound(first_node_.begin(), first_node_.end(), node);
    return Size(after - first_node_.begin()) - 1;
  }
  std::int32_t EndOf(std::size_t worker) const { return first_node_[worker + 1]; }

  // The first action of `worker` that still waits, or EndOf.
  std::int32_t Head(std::size_t worker) const {
    std::int32_t node = first_node_[worker];
    while (node < EndOf(worker) && waits_[Size(node)] == 0) ++node;
    return node;
  }

  // An action that has not run and must before `node`, the head of its worker, can.
  std::int32_t BlockerOf(std::int32_t node) const {
    const Action& action = actions_[Size(node)];
    const std::int32_t input = InputOf(action);
    if (input >= 0 && waits_[Size(input)] > 0) return input;
    // Its worker stands at a closed barrier: some member of it is not reached.
    for (std::int32_t s = 0; s < stages_; ++s) {
      const bool waits_here =
          action.kind == ActionKind::kValidate ||
          (node > 0 && actions_[Size(node) - 1] == Action{ActionKind::kReduceGrad, StageId(s), {}});
      if (!waits_here || waits_[Size(Barrier(s))] == 0) continue;
      for (const std::int32_t member : barrier_members_[Size(s)]) {
        if (waits_[Size(member)] > 0) return member;
      }
    }
    return node;
  }

  const Plan& plan_;
  const std::int32_t stages_;
  std::vector<Action> actions_;
  std::vector<std::int32_t> first_node_;  // per worker, and the end
  std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::int32_t>> barrier_members_;
  std::vector<std::int32_t> validates_;  // those that wait for all stages
  std::vector<std::int32_t> waits_;      // per node: what it still waits for
};

}  // namespace

std::vector<Violation> FindDeadlock(const Plan& plan, std::size_t limit) {
  WaitGraph graph(plan);
  if (graph.Drain()) return {};
  std::vector<Violation> violations;
  const auto cycle = graph.FindCycle();
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
