#include "recycle/planner/list_scheduler.h"

#include <algorithm>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/planner/event_queue.h"

namespace recycle {
namespace {

// First in, first out, in space that is handed to it: the number of items ever pushed is known.
class Fifo {
 public:
  void Place(std::int32_t* items) { items_ = items; }
  void Clear() { head_ = tail_ = 0; }
  bool empty() const { return head_ == tail_; }
  int size() const { return tail_ - head_; }
  int front() const { return items_[head_]; }
  void push(int item) { items_[tail_++] = item; }
  int pop() { return items_[head_++]; }

 private:
  std::int32_t* items_ = nullptr;
  std::int32_t head_ = 0;
  std::int32_t tail_ = 0;
};

struct Arrival {
  std::int64_t time;
  int slot;
};

// A worker's part in one stage.
struct Lane {
  int worker = 0;
  int pipeline = 0;
  int quota = 0;
  int own_quota = 0;     // forwards that are its own: none, its pipeline's, or all it is given
  int orphan_quota = 0;  // strict affinity: orphans it may start
  int started = 0;       // F's started
  int orphans_started = 0;
  int open = 0;                  // F's started whose I has not
  Fifo inputs;                   // micro-batches whose I may start
  Fifo weights;                  // micro-batches whose W is owed
  Fifo own;                      // forwards nobody else may run
  std::vector<Arrival> pending;  // I's that are known to come, not here yet
};

std::int64_t LongestDelay(const SurrogateTimes& times) {
  std::int64_t duration = 0;
  for (const auto& own : times.durations) {
    duration = std::max(duration, *std::max_element(own.begin(), own.end()));
  }
  return duration +
         std::max(*std::max_element(times.send_forward.begin(), times.send_forward.end()),
                  *std::max_element(times.send_backward.begin(), times.send_backward.end()));
}

}  // namespace

class ListScheduler::Simulation {
 public:
  // `assigned` is empty, or the pipeline of every slot.
  Simulation(const FlatJob& job, SurrogateTimes times, Affinity affinity,
             std::vector<std::int32_t> assigned)
      : job_(job),
        times_(std::move(times)),
        strict_(affinity == Affinity::kStrict),
        assigned_(std::move(assigned)),
        events_(LongestDelay(times_), job.num_slots(), job.num_workers()) {
    RC_CHECK(affinity != Affinity::kAny) << "the scheduler builds one kind of order at a time";
    lanes_.resize(Index(job.num_stages * job.num_pipelines));
    alive_.assign(Index(job.num_workers()), false);
    stages_of_.resize(Index(job.num_columns));
    reserve_.assign(Index(job.num_stages), 0);
    for (int stage = job.num_stages - 1; stage >= 0; --stage) {
      const std::size_t column = Index(job.column[Index(stage)]);
      for (const int higher : stages_of_[column]) {
        reserve_[Index(stage)] += job.stages[Index(higher)].activation_bytes;
      }
      stages_of_[column].push_back(stage);
      for (const int k : job.live[column]) {
        Lane& lane = LaneOf(stage, k);
        lane.worker = job.WorkerOf(stage, k);
        lane.pipeline = k;
        alive_[Index(lane.worker)] = true;
      }
      SetQuotas(stage);
    }
    if (!assigned_.empty()) SetAssignedQuotas();
    pools_.resize(Index(job.num_stages));
    PlaceQueues();
    touched_.assign(Index(job.num_columns), false);
    idle_.resize(Index(job.num_stages));
  }

  const SurrogateTimes& times() const { return times_; }

  bool Run(const DispatchRules& rules, Order& order) {
    rules_ = &rules;
    order_ = &order;
    Reset();
    while (!events_.empty()) {
      events_.TakeNext([this](EventQueue::Type type, int payload) { Handle(type, payload); });
      for (int column = 0; column < job_.num_columns; ++column) {
        if (!touched_[Index(column)]) continue;
        touched_[Index(column)] = false;
        Dispatch(column);
      }
    }
    return order.ops.size() == job_.num_actions();
  }

 private:
  Lane& LaneOf(int stage, int pipeline) {
    return lanes_[Index(stage * job_.num_pipelines + pipeline)];
  }

  // Micro-batches each worker of `stage` takes: even, or by speed where there are stragglers.
  void SetQuotas(int stage) {
    const std::vector<int>& live = job_.live[Index(job_.column[Index(stage)])];
    const int orphans = job_.micro_batches * (job_.num_pipelines - static_cast<int>(live.size()));
    const int live_count = static_cast<int>(live.size());
    for (const int k : live) {
      Lane& lane = LaneOf(stage, k);
      lane.quota = job_.Quota(stage);
      lane.own_quota = strict_ ? job_.micro_batches : 0;
      lane.orphan_quota = (orphans + live_count - 1) / live_count;
    }
    if (!job_.has_stragglers) return;
    std::vector<int> share(live.size(), 0);
    const int to_share = strict_ ? orphans : job_.num_micro_batches;
    for (int n = 0; n < to_share; ++n) {
      std::size_t best = 0;
      double best_time = 0;
      for (std::size_t p = 0; p < live.size(); ++p) {
        const int base = strict_ ? job_.micro_batches : 0;
        const double time = (base + share[p] + 1) * job_.slow[Index(job_.WorkerOf(stage, live[p]))];
        if (p == 0 || time < best_time) {
          best = p;
          best_time = time;
        }
      }
      ++share[best];
    }
    for (std::size_t p = 0; p < live.size(); ++p) {
      Lane& lane = LaneOf(stage, live[p]);
      lane.orphan_quota = strict_ ? share[p] : 0;
      lane.quota = share[p] + (strict_ ? job_.micro_batches : 0);
    }
  }

  void SetAssignedQuotas() {
    for (Lane& lane : lanes_) lane.quota = lane.own_quota = lane.orphan_quota = 0;
    for (int slot = 0; slot < job_.num_slots(); ++slot) {
      Lane& lane = LaneOf(job_.StageAt(slot), assigned_[Index(slot)]);
      ++lane.quota;
      ++lane.own_quota;
    }
  }

  // Hands every queue its part of one block of memory.
  void PlaceQueues() {
    std::size_t total = Index(job_.num_micro_batches) * pools_.size();
    for (const Lane& lane : lanes_) {
      total += 2 * Index(lane.quota) + Index(lane.own_quota);
    }
    queue_space_.resize(total);
    std::int32_t* space = queue_space_.data();
    for (Fifo& pool : pools_) {
      pool.Place(space);
      space += job_.num_micro_batches;
    }
    for (Lane& lane : lanes_) {
      lane.inputs.Place(space);
      lane.weights.Place(space + lane.quota);
      lane.own.Place(space + 2 * lane.quota);
      space += 2 * lane.quota + lane.own_quota;
    }
  }

  void Reset() {
    for (Lane& lane : lanes_) {
      lane.started = lane.orphans_started = lane.open = 0;
      lane.inputs.Clear();
      lane.weights.Clear();
      lane.own.Clear();
      lane.pending.clear();
    }
    busy_.assign(Index(job_.num_workers()), false);
    memory_.assign(Index(job_.num_workers()), 0);
    running_.assign(Index(job_.num_workers()), 0);
    for (Fifo& pool : pools_) pool.Clear();
    looks_ahead_ = rules_->forward_lookahead > 0 || rules_->weight_lookahead > 0;
    order_->ops.clear();
    order_->ops.reserve(job_.num_actions());
    order_->pipeline.assign(Index(job_.num_slots()), -1);
    for (int micro_batch = 0; micro_batch < job_.num_micro_batches; ++micro_batch) {
      AddForward(micro_batch, 0);
    }
    events_.Clear();
    events_.Push(0, EventQueue::kForwardArrives, 0);
  }

  void AddForward(int micro_batch, int stage) {
    const int home = micro_batch % job_.num_pipelines;
    if (!assigned_.empty()) {
      LaneOf(stage, assigned_[Index(micro_batch * job_.num_stages + stage)]).own.push(micro_batch);
    } else if (strict_ && alive_[Index(job_.WorkerOf(stage, home))]) {
      LaneOf(stage, home).own.push(micro_batch);
    } else {
      pools_[Index(stage)].push(micro_batch);
    }
  }

  void Handle(EventQueue::Type type, int payload) {
    if (type == EventQueue::kWorkerFree) {
      Finish(payload);
      touched_[Index(payload / job_.num_pipelines)] = true;
      return;
    }
    const int stage = job_.StageAt(payload);
    const int micro_batch = job_.MicroBatchAt(payload);
    touched_[Index(job_.column[Index(stage)])] = true;
    if (type == EventQueue::kForwardArrives) {
      // All micro-batches are at stage 0 from the start; the event there only wakes its workers.
      if (stage > 0) AddForward(micro_batch, stage);
      return;
    }
    Lane& lane = LaneOf(stage, order_->pipeline[Index(payload)]);
    if (looks_ahead_) {
      std::erase_if(lane.pending, [&](const Arrival& a) { return a.slot == payload; });
    }
    lane.inputs.push(micro_batch);
  }

  void Finish(int worker) {
    busy_[Index(worker)] = false;
    const int slot = Order::SlotOf(running_[Index(worker)]);
    const int stage = job_.StageAt(slot);
    const StageCosts& costs = job_.stages[Index(stage)];
    switch (Order::KindOf(running_[Index(worker)])) {
      case ActionKind::kBackwardInput:
        memory_[Index(worker)] -= costs.activation_bytes - costs.deferred_bytes;
        LaneOf(stage, worker % job_.num_pipelines).weights.push(job_.MicroBatchAt(slot));
        break;
      case ActionKind::kBackwardWeight:
        memory_[Index(worker)] -= costs.deferred_bytes;
        break;
      case ActionKind::kBackward:
        memory_[Index(worker)] -= costs.activation_bytes;
        break;
      case ActionKind::kForward:
      case ActionKind::kReduceGrad:
      case ActionKind::kValidate:
      case ActionKind::kStep:
        break;
    }
  }

  // The idle workers' lanes of every stage of `column`, by fewest started, then by number.
  bool FindIdle(int column) {
    bool any = false;
    for (const int stage : stages_of_[Index(column)]) {
      std::vector<Lane*>& idle = idle_[Index(stage)];
      idle.clear();
      for (const int k : job_.live[Index(column)]) {
        if (!busy_[Index(column * job_.num_pipelines + k)]) idle.push_back(&LaneOf(stage, k));
      }
      any = any || !idle.empty();
      std::sort(idle.begin(), idle.end(), [](const Lane* a, const Lane* b) {
        return std::pair(a->started, a->worker) < std::pair(b->started, b->worker);
      });
    }
    return any;
  }

  // Calls `start(lane, stage)` for every lane of the stages [first, last), in this order, whose
  // worker is still idle.
  template <typename Iterator, typename Starter>
  void ForIdle(Iterator first, Iterator last, Starter start) {
    for (; first != last; ++first) {
      for (Lane* lane : idle_[Index(*first)]) {
        if (!busy_[Index(lane->worker)]) start(*lane, *first);
      }
    }
  }

  // Higher stages first; but of W's those of lower stages, which the next iteration needs first.
  void Dispatch(int column) {
    if (!FindIdle(column)) return;
    const std::vector<int>& stages = stages_of_[Index(column)];
    ForIdle(stages.begin(), stages.end(),
            [this](Lane& lane, int stage) { StartBelowMinimum(lane, stage); });  // P0
    ForIdle(stages.begin(), stages.end(), [this](Lane& lane, int stage) {        // P1
      if (!lane.inputs.empty()) StartBackward(lane, stage);
    });
    ForIdle(stages.begin(), stages.end(), [this](Lane& lane, int stage) {  // P2
      const std::size_t s = Index(stage);
      if (!HasForward(lane, s) || !Fits(lane, s) || lane.started >= lane.quota) return;
      if (lane.open >= rules_->max_open[s] || lane.weights.size() >= rules_->max_weights[s]) return;
      if (!AwaitsInput(lane, rules_->forward_lookahead)) StartForward(lane, stage);
    });
    ForIdle(stages.rbegin(), stages.rend(), [this](Lane& lane, int stage) {  // P3
      if (!lane.weights.empty() && !AwaitsInput(lane, rules_->weight_lookahead)) {
        StartWeight(lane, stage);
      }
    });
  }

  // P0: too few forwards in flight, or too many W's owed, come before an I that is here.
  void StartBelowMinimum(Lane& lane, int stage) {
    const std::size_t s = Index(stage);
    if (lane.started >= lane.quota) return;
    if (lane.open < rules_->min_open[s] && lane.open < rules_->max_open[s] && HasForward(lane, s)) {
      if (Fits(lane, s)) {
        StartForward(lane, stage);
      } else if (!lane.weights.empty()) {
        StartWeight(lane, stage);
      }
    } else if (lane.weights.size() >= rules_->drain_weights[s]) {
      StartWeight(lane, stage);
    }
  }

  bool Fits(const Lane& lane, std::size_t stage) const {
    return memory_[Index(lane.worker)] + job_.stages[stage].activation_bytes + reserve_[stage] <=
           job_.capacity[Index(job_.column[stage])];
  }

  bool MayTakeFromPool(const Lane& lane, std::size_t stage) const {
    return !pools_[stage].empty() && (!strict_ || lane.orphans_started < lane.orphan_quota);
  }

  bool HasForward(const Lane& lane, std::size_t stage) const {
    return !lane.own.empty() || MayTakeFromPool(lane, stage);
  }

  // True if an I is known to arrive in [now, now + within).
  bool AwaitsInput(const Lane& lane, std::int64_t within) const {
    if (within == 0) return false;
    return std::any_of(lane.pending.begin(), lane.pending.end(), [&](const Arrival& arrival) {
      return arrival.time < events_.now() + within;
    });
  }

  // The head of its own queue or of the pool: the lesser index m, its own on a tie.
  int PopForward(Lane& lane, std::size_t stage) {
    Fifo& pool = pools_[stage];
    const bool from_pool = MayTakeFromPool(lane, stage) &&
                           (lane.own.empty() || pool.front() / job_.num_pipelines <
                                                    lane.own.front() / job_.num_pipelines);
    if (!from_pool) return lane.own.pop();
    ++lane.orphans_started;
    return pool.pop();
  }

  // Records the start of `kind` and returns its end.
  std::int64_t Start(Lane& lane, int stage, int micro_batch, ActionKind kind) {
    const std::uint32_t op = Order::Op(micro_batch * job_.num_stages + stage, kind);
    order_->ops.push_back(op);
    busy_[Index(lane.worker)] = true;
    running_[Index(lane.worker)] = op;
    const std::int64_t end =
        events_.now() + times_.durations[Index(stage * job_.num_pipelines + lane.pipeline)]
                                        [static_cast<std::size_t>(kind)];
    events_.Push(end, EventQueue::kWorkerFree, lane.worker);
    return end;
  }

  void StartForward(Lane& lane, int stage) {
    const int micro_batch = PopForward(lane, Index(stage));
    const int slot = micro_batch * job_.num_stages + stage;
    order_->pipeline[Index(slot)] = lane.pipeline;
    memory_[Index(lane.worker)] += job_.stages[Index(stage)].activation_bytes;
    ++lane.started;
    ++lane.open;
    const std::int64_t end = Start(lane, stage, micro_batch, ActionKind::kForward);
    if (stage + 1 < job_.num_stages) {
      events_.Push(end + times_.send_forward[Index(stage)], EventQueue::kForwardArrives, slot + 1);
    } else {
      Announce(lane, slot, end);
    }
  }

  void StartBackward(Lane& lane, int stage) {
    const int micro_batch = lane.inputs.pop();
    --lane.open;
    const std::int64_t end =
        Start(lane, stage, micro_batch,
              job_.decoupled ? ActionKind::kBackwardInput : ActionKind::kBackward);
    if (stage == 0) return;
    const int slot = micro_batch * job_.num_stages + stage - 1;
    Lane& before = LaneOf(stage - 1, order_->pipeline[Index(slot)]);
    Announce(before, slot, end + times_.send_backward[Index(stage - 1)]);
  }

  void StartWeight(Lane& lane, int stage) {
    Start(lane, stage, lane.weights.pop(), ActionKind::kBackwardWeight);
  }

  void Announce(Lane& lane, int slot, std::int64_t time) {
    if (looks_ahead_) lane.pending.push_back({.time = time, .slot = slot});
    events_.Push(time, EventQueue::kInputArrives, slot);
  }

  const FlatJob& job_;
  const SurrogateTimes times_;
  const bool strict_;
  const std::vector<std::int32_t> assigned_;
  EventQueue events_;
  const DispatchRules* rules_ = nullptr;
  Order* order_ = nullptr;
  std::vector<Lane> lanes_;                  // by stage * DP + pipeline
  std::vector<std::vector<int>> stages_of_;  // by column: its stages, highest first
  std::vector<double> reserve_;              // by stage: room kept for its worker's higher stages
  std::vector<std::uint8_t> busy_;           // by worker
  std::vector<double> memory_;               // by worker
  std::vector<std::uint32_t> running_;       // by worker: the action it runs or ran last
  std::vector<bool> alive_;                  // by worker
  std::vector<std::int32_t> queue_space_;
  std::vector<Fifo> pools_;               // by stage: forwards anybody (strict: orphans) may take
  std::vector<bool> touched_;             // by stage: something happened there now
  std::vector<std::vector<Lane*>> idle_;  // by stage
  bool looks_ahead_ = false;
};

ListScheduler::ListScheduler(const FlatJob& job, SurrogateTimes times, Affinity affinity)
    : simulation_(std::make_unique<Simulation>(job, std::move(times), affinity,
                                               std::vector<std::int32_t>())) {}

ListScheduler::ListScheduler(const FlatJob& job, SurrogateTimes times,
                             std::vector<std::int32_t> pipeline)
    : simulation_(std::make_unique<Simulation>(job, std::move(times), Affinity::kStrict,
                                               std::move(pipeline))) {}

ListScheduler::~ListScheduler() = default;

const SurrogateTimes& ListScheduler::times() const { return simulation_->times(); }

bool ListScheduler::Run(const DispatchRules& rules, Order& order) {
  return simulation_->Run(rules, order);
}

}  // namespace recycle
