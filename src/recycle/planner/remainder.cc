#include "recycle/planner/remainder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

// What the remainder does with one micro-batch at one stage; all of it is on one worker.
struct Slot {
  std::int32_t worker = -1;
  bool forward = false;  // still to be made, and so on
  bool input = false;
  bool weight = false;
  bool whole = false;               // I and W are one B
  bool activation_pending = false;  // F waits for the stage before
  bool gradient_pending = false;    // I waits for the stage after
};

// The lowest number first.
using Ready = std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>>;

struct Worker {
  int stage = 0;
  bool regenerates = false;  // its stage is committed
  bool busy = false;
  double factor = 1;
  std::int64_t full = 0;      // F started, neither I nor B ended
  std::int64_t deferred = 0;  // I ended, W not
  Ready inputs, forwards, weights;
};

enum class EventType : std::uint8_t { kActivation, kGradient, kFree };
struct Event {
  Ticks time = 0;
  EventType type = EventType::kFree;
  std::int32_t slot = 0;
  ActionKind ended = ActionKind::kForward;  // kFree
  auto Key() const { return std::tuple(time, type, slot); }
  bool operator>(const Event& other) const { return Key() > other.Key(); }
};

class ListSchedule {
 public:
  explicit ListSchedule(const Plan& rest)
      : rest_(rest),
        stages_(rest.parallel.num_stages()),
        pipelines_(rest.parallel.data),
        slots_(Index(stages_) * Index(pipelines_) * Index(rest.micro_batches)),
        workers_(rest.workers.size()),
        in_flight_(Index(stages_)) {
    RC_CHECK(rest.parallel.virtual_stages == 1) << "one stage per worker";
    const std::vector<int> live = LivePerStage(rest.parallel, rest.failed);
    for (int s = 0; s < stages_; ++s) {
      // 1F1B's depth, for the share of a worker here.
      in_flight_[Index(s)] = ((stages_ - s) * pipelines_ + live[Index(s)] - 1) / live[Index(s)];
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) ReadWorker(w);
    for (const SlowWorker& slow : rest.slow) {
      for (std::size_t w = 0; w < workers_.size(); ++w) {
        if (rest.workers[w].worker == slow.worker) workers_[w].factor = slow.factor;
      }
    }
    ReadInitial();
  }

  StatusOr<Schedule> Run() {
    for (std::int32_t slot = 0; slot < std::ssize(slots_); ++slot) Prime(slot);
    for (std::size_t w = 0; w < workers_.size(); ++w) Dispatch(static_cast<std::int32_t>(w));
    while (!events_.empty()) {
      const Ticks now = events_.top().time;
      now_ = now;
      touched_.clear();
      while (!events_.empty() && events_.top().time == now) {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
      }
      std::sort(touched_.begin(), touched_.end());
      for (const std::int32_t worker : touched_) Dispatch(worker);
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (schedule_[w].actions.size() == rest_.workers[w].actions.size()) continue;
      return absl::FailedPreconditionError(fmt::format(
          "the rest of the iteration has no order within the capacities: worker {} gets stuck "
          "after {} of {} actions",
          ToString(rest_.workers[w].worker), schedule_[w].actions.size(),
          rest_.workers[w].actions.size()));
    }
    return std::move(schedule_);
  }

 private:
  // By stage, then by the number that orders micro-batches: index first, then home.
  std::int32_t SlotIndex(int stage, MicroBatch b) const {
    return (stage * rest_.micro_batches + b.index) * pipelines_ + b.home.value();
  }
  int PerStage() const { return rest_.micro_batches * pipelines_; }
  int StageOf(std::int32_t slot) const { return slot / PerStage(); }
  MicroBatch MicroBatchOf(std::int32_t slot) const {
    const int number = slot % PerStage();
    return {PipelineId(number % pipelines_), number / pipelines_};
  }

  void ReadWorker(std::size_t w) {
    const WorkerSchedule& entry = rest_.workers[w];
    schedule_.push_back({entry.worker, {}});
    schedule_.back().actions.reserve(entry.actions.size());
    workers_[w].stage = entry.worker.stage.value();
    workers_[w].regenerates =
        std::count(rest_.committed.begin(), rest_.committed.end(), entry.worker.stage) > 0;
    for (const Action& action : entry.actions) {
      Slot& slot = slots_[Index(SlotIndex(action.stage.value(), action.micro_batch))];
      slot.worker = static_cast<std::int32_t>(w);
      slot.forward |= action.kind == ActionKind::kForward;
      slot.input |=
          action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackward;
      slot.weight |= action.kind == ActionKind::kBackwardWeight;
      slot.whole |= action.kind == ActionKind::kBackward;
    }
  }

  void ReadInitial() {
    for (const InitialState& state : rest_.initial) {
      const WorkerSchedule* entry = FindWorker(rest_.workers, state.worker);
      RC_CHECK(entry != nullptr) << "worker " << state.worker << " of initial has no entry";
      Worker& worker = workers_[Index(entry - rest_.workers.data())];
      if (worker.regenerates) continue;
      for (const Action& action : state.done) {
        if (action.kind == ActionKind::kForward) ++worker.full;
        if (action.kind == ActionKind::kBackwardInput) --worker.full, ++worker.deferred;
        if (action.kind == ActionKind::kBackwardWeight) --worker.deferred;
        if (action.kind == ActionKind::kBackward) --worker.full;
      }
    }
  }

  const Slot* Neighbour(std::int32_t slot, int step) const {
    const int stage = StageOf(slot) + step;
    return stage < 0 || stage >= stages_ ? nullptr : &slots_[Index(slot + step * PerStage())];
  }

  // What a slot waits for at the start.
  void Prime(std::int32_t index) {
    Slot& slot = slots_[Index(index)];
    if (slot.worker < 0) return;
    Worker& worker = workers_[Index(slot.worker)];
    const Slot* below = Neighbour(index, -1);
    const Slot* above = Neighbour(index, +1);
    slot.activation_pending = below != nullptr && below->forward;
    slot.gradient_pending = above != nullptr && above->input;
    if (slot.forward) {
      if (!slot.activation_pending) worker.forwards.push(index);
    } else if (slot.input) {
      if (!slot.gradient_pending) worker.inputs.push(index);
    } else if (slot.weight) {
      worker.weights.push(index);
    }
  }

  void Handle(const Event& event) {
    Slot& slot = slots_[Index(event.slot)];
    Worker& worker = workers_[Index(slot.worker)];
    touched_.push_back(slot.worker);
    switch (event.type) {
      case EventType::kActivation:
        slot.activation_pending = false;
        if (slot.forward) worker.forwards.push(event.slot);
        return;
      case EventType::kGradient:
        slot.gradient_pending = false;
        if (slot.input && !slot.forward) worker.inputs.push(event.slot);
        return;
      case EventType::kFree:
        worker.busy = false;
        Finish(event.slot, event.ended, slot, worker);
        return;
    }
  }

  void Finish(std::int32_t index, ActionKind ended, Slot& slot, Worker& worker) {
    const int stage = StageOf(index);
    if (ended == ActionKind::kForward) {
      slot.forward = false;
      if (worker.regenerates && !slot.input) --worker.full;
      if (slot.input && !slot.gradient_pending) worker.inputs.push(index);
      if (stage + 1 == stages_) return;
      Tell(EventType::kActivation, index + PerStage(), rest_.costs.send_forward[Index(stage)]);
    } else if (ended == ActionKind::kBackwardWeight) {
      --worker.deferred;
    } else {
      slot.input = false;
      --worker.full;
      if (slot.weight) {
        ++worker.deferred;
        worker.weights.push(index);
      }
      if (stage == 0) return;
      Tell(EventType::kGradient, index - PerStage(), rest_.costs.send_backward[Index(stage - 1)]);
    }
  }

  void Tell(EventType type, std::int32_t receiver, Ticks send) {
    if (slots_[Index(receiver)].worker >= 0) events_.push({now_ + send, type, receiver});
  }

  bool HasRoom(const Worker& worker) const {
    const StageCosts& costs = rest_.costs.stages[Index(worker.stage)];
    constexpr double kSlack = 1 + 1e-9;  // as in Validate
    const double bytes = static_cast<double>(worker.full + 1) * costs.activation_bytes +
                         static_cast<double>(worker.deferred) * costs.deferred_bytes;
    return !costs.capacity_bytes || bytes <= *costs.capacity_bytes * kSlack;
  }

  // On a committed stage everything is a regeneration, and its I's go first: they free memory.
  void Dispatch(std::int32_t w) {
    Worker& worker = workers_[Index(w)];
    if (worker.busy) return;
    if (!worker.inputs.empty()) {
      const bool whole = slots_[Index(worker.inputs.top())].whole;
      Start(w, worker.inputs, whole ? ActionKind::kBackward : ActionKind::kBackwardInput);
    } else if (!worker.forwards.empty() && HasRoom(worker) &&
               worker.full < in_flight_[Index(worker.stage)]) {
      ++worker.full;
      Start(w, worker.forwards, ActionKind::kForward);
    } else if (!worker.weights.empty()) {
      Start(w, worker.weights, ActionKind::kBackwardWeight);
    }
  }

  void Start(std::int32_t w, Ready& ready, ActionKind kind) {
    const std::int32_t slot = ready.top();
    ready.pop();
    Worker& worker = workers_[Index(w)];
    worker.busy = true;
    schedule_[Index(w)].actions.push_back({kind, StageId(worker.stage), MicroBatchOf(slot)});
    const double ticks =
        static_cast<double>(DurationOf(rest_.costs.stages[Index(worker.stage)], kind)) *
        worker.factor;
    events_.push({now_ + std::llround(ticks), EventType::kFree, slot, kind});
  }

  const Plan& rest_;
  const int stages_;
  const int pipelines_;
  std::vector<Slot> slots_;
  std::vector<Worker> workers_;          // as rest_.workers
  std::vector<std::int64_t> in_flight_;  // by stage: most F's whose I has not ended
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::int32_t> touched_;  // workers to look at, at now_
  Schedule schedule_;
  Ticks now_ = 0;
};

}  // namespace

StatusOr<Schedule> OrderRemainder(const Plan& rest) { return ListSchedule(rest).Run(); }

}  // namespace recycle
