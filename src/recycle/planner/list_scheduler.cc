#include "recycle/planner/list_scheduler.h"

#include <algorithm>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/planner/event_queue.h"

namespace recycle {
namespace {

std::size_t At(int index) { return static_cast<std::size_t>(index); }

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

struct Worker {
  int number = 0;
  int pipeline = 0;
  int quota = 0;
  int orphan_quota = 0;  // strict affinity: orphans it may start
  double memory = 0;
  int started = 0;  // F's started
  int orphans_started = 0;
  int open = 0;  // F's started whose I has not
  std::uint32_t running = 0;
  Fifo inputs;                   // micro-batches whose I may start
  Fifo weights;                  // micro-batches whose W is owed
  Fifo own;                      // strict affinity: forwards of its own pipeline
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
  Simulation(const FlatJob& job, SurrogateTimes times, Affinity affinity)
      : job_(job),
        times_(std::move(times)),
        strict_(affinity == Affinity::kStrict),
        events_(LongestDelay(times_), job.num_slots(), job.num_workers()) {
    RC_CHECK(affinity != Affinity::kAny) << "the scheduler builds one kind of order at a time";
    RC_CHECK(job.num_stages == job.num_columns) << "one stage per worker";
    workers_.resize(At(job.num_workers()));
    alive_.assign(workers_.size(), false);
    for (int stage = 0; stage < job.num_stages; ++stage) {
      for (const int k : job.live[At(stage)]) {
        const int number = job.WorkerOf(stage, k);
        workers_[At(number)].number = number;
        workers_[At(number)].pipeline = k;
        alive_[At(number)] = true;
      }
      SetQuotas(stage);
    }
    pools_.resize(At(job.num_stages));
    busy_.assign(workers_.size(), false);
    PlaceQueues();
    touched_.assign(At(job.num_stages), false);
  }

  const SurrogateTimes& times() const { return times_; }

  bool Run(const DispatchRules& rules, Order& order) {
    rules_ = &rules;
    order_ = &order;
    Reset();
    while (!events_.empty()) {
      events_.TakeNext([this](EventQueue::Type type, int payload) { Handle(type, payload); });
      for (int stage = 0; stage < job_.num_stages; ++stage) {
        if (!touched_[At(stage)]) continue;
        touched_[At(stage)] = false;
        Dispatch(stage);
      }
    }
    return order.ops.size() == job_.num_actions();
  }

 private:
  // Micro-batches each worker of `stage` takes: even, or by speed where there are stragglers.
  void SetQuotas(int stage) {
    const std::vector<int>& live = job_.live[At(stage)];
    const int orphans = job_.micro_batches * (job_.num_pipelines - static_cast<int>(live.size()));
    const int live_count = static_cast<int>(live.size());
    for (const int k : live) {
      Worker& worker = workers_[At(job_.WorkerOf(stage, k))];
      worker.quota = job_.Quota(stage);
      worker.orphan_quota = (orphans + live_count - 1) / live_count;
    }
    if (!job_.has_stragglers) return;
    std::vector<int> share(live.size(), 0);
    const int to_share = strict_ ? orphans : job_.num_micro_batches;
    for (int n = 0; n < to_share; ++n) {
      std::size_t best = 0;
      double best_time = 0;
      for (std::size_t p = 0; p < live.size(); ++p) {
        const int base = strict_ ? job_.micro_batches : 0;
        const double time = (base + share[p] + 1) * job_.slow[At(job_.WorkerOf(stage, live[p]))];
        if (p == 0 || time < best_time) {
          best = p;
          best_time = time;
        }
      }
      ++share[best];
    }
    for (std::size_t p = 0; p < live.size(); ++p) {
      Worker& worker = workers_[At(job_.WorkerOf(stage, live[p]))];
      worker.orphan_quota = strict_ ? share[p] : 0;
      worker.quota = share[p] + (strict_ ? job_.micro_batches : 0);
    }
  }

  // Hands every queue its part of one block of memory.
  void PlaceQueues() {
    std::size_t total = At(job_.num_micro_batches) * pools_.size();
    for (const Worker& worker : workers_) {
      total += 2 * At(worker.quota) + (strict_ ? At(job_.micro_batches) : 0);
    }
    queue_space_.resize(total);
    std::int32_t* space = queue_space_.data();
    for (Fifo& pool : pools_) {
      pool.Place(space);
      space += job_.num_micro_batches;
    }
    for (Worker& worker : workers_) {
      worker.inputs.Place(space);
      worker.weights.Place(space + worker.quota);
      worker.own.Place(space + 2 * worker.quota);
      space += 2 * worker.quota + (strict_ ? job_.micro_batches : 0);
    }
  }

  void Reset() {
    for (Worker& worker : workers_) {
      worker.memory = 0;
      worker.started = worker.orphans_started = worker.open = 0;
      worker.inputs.Clear();
      worker.weights.Clear();
      worker.own.Clear();
      worker.pending.clear();
    }
    std::fill(busy_.begin(), busy_.end(), false);
    for (Fifo& pool : pools_) pool.Clear();
    looks_ahead_ = rules_->forward_lookahead > 0 || rules_->weight_lookahead > 0;
    order_->ops.clear();
    order_->ops.reserve(job_.num_actions());
    order_->pipeline.assign(At(job_.num_slots()), -1);
    for (int micro_batch = 0; micro_batch < job_.num_micro_batches; ++micro_batch) {
      AddForward(micro_batch, 0);
    }
    events_.Clear();
    events_.Push(0, EventQueue::kForwardArrives, 0);
  }

  void AddForward(int micro_batch, int stage) {
    const int home = job_.WorkerOf(stage, micro_batch % job_.num_pipelines);
    if (strict_ && alive_[At(home)]) {
      workers_[At(home)].own.push(micro_batch);
    } else {
      pools_[At(stage)].push(micro_batch);
    }
  }

  void Handle(EventQueue::Type type, int payload) {
    if (type == EventQueue::kWorkerFree) {
      Worker& worker = workers_[At(payload)];
      const int stage = payload / job_.num_pipelines;
      Finish(worker, stage);
      touched_[At(stage)] = true;
      return;
    }
    const int stage = payload % job_.num_stages;
    const int micro_batch = payload / job_.num_stages;
    touched_[At(stage)] = true;
    if (type == EventQueue::kForwardArrives) {
      // All micro-batches are at stage 0 from the start; the event there only wakes its workers.
      if (stage > 0) AddForward(micro_batch, stage);
      return;
    }
    Worker& worker = workers_[At(job_.WorkerOf(stage, order_->pipeline[At(payload)]))];
    if (looks_ahead_) {
      std::erase_if(worker.pending, [&](const Arrival& a) { return a.slot == payload; });
    }
    worker.inputs.push(micro_batch);
  }

  void Finish(Worker& worker, int stage) {
    busy_[At(worker.number)] = false;
    const StageCosts& costs = job_.stages[At(stage)];
    switch (Order::KindOf(worker.running)) {
      case ActionKind::kBackwardInput:
        worker.memory -= costs.activation_bytes - costs.deferred_bytes;
        worker.weights.push(Order::SlotOf(worker.running) / job_.num_stages);
        break;
      case ActionKind::kBackwardWeight:
        worker.memory -= costs.deferred_bytes;
        break;
      case ActionKind::kBackward:
        worker.memory -= costs.activation_bytes;
        break;
      case ActionKind::kForward:
      case ActionKind::kReduceGrad:
      case ActionKind::kValidate:
      case ActionKind::kStep:
        break;
    }
  }

  void Dispatch(int stage) {
    idle_.clear();
    for (const int k : job_.live[At(stage)]) {
      const std::size_t number = At(job_.WorkerOf(stage, k));
      if (!busy_[number]) idle_.push_back(&workers_[number]);
    }
    if (idle_.empty()) return;
    std::sort(idle_.begin(), idle_.end(), [](const Worker* a, const Worker* b) {
      return std::pair(a->started, a->number) < std::pair(b->started, b->number);
    });
    const auto s = At(stage);
    for (Worker* worker : idle_) StartBelowMinimum(*worker, s);
    for (Worker* worker : idle_) {
      if (IsBusy(*worker) || worker->inputs.empty()) continue;
      StartBackward(*worker, stage);
    }
    for (Worker* worker : idle_) {
      if (IsBusy(*worker) || !HasForward(*worker, s) || !Fits(*worker, s)) continue;
      if (worker->open >= rules_->max_open[s] || worker->weights.size() >= rules_->max_weights[s] ||
          worker->started >= worker->quota || AwaitsInput(*worker, rules_->forward_lookahead)) {
        continue;
      }
      StartForward(*worker, stage);
    }
    for (Worker* worker : idle_) {
      if (IsBusy(*worker) || worker->weights.empty()) continue;
      if (!AwaitsInput(*worker, rules_->weight_lookahead)) StartWeight(*worker, stage);
    }
  }

  // P0: too few forwards in flight, or too many W's owed, come before an I that is here.
  void StartBelowMinimum(Worker& worker, std::size_t s) {
    const int stage = static_cast<int>(s);
    if (worker.started >= worker.quota) return;
    if (worker.open < rules_->min_open[s] && worker.open < rules_->max_open[s] &&
        HasForward(worker, s)) {
      if (Fits(worker, s)) {
        StartForward(worker, stage);
      } else if (!worker.weights.empty()) {
        StartWeight(worker, stage);
      }
    } else if (worker.weights.size() >= rules_->drain_weights[s]) {
      StartWeight(worker, stage);
    }
  }

  bool IsBusy(const Worker& worker) const { return busy_[At(worker.number)] != 0; }

  bool Fits(const Worker& worker, std::size_t stage) const {
    return worker.memory + job_.stages[stage].activation_bytes <= job_.capacity[stage];
  }

  bool MayTakeFromPool(const Worker& worker, std::size_t stage) const {
    return !pools_[stage].empty() && (!strict_ || worker.orphans_started < worker.orphan_quota);
  }

  bool HasForward(const Worker& worker, std::size_t stage) const {
    return !worker.own.empty() || MayTakeFromPool(worker, stage);
  }

  // True if an I is known to arrive in [now, now + within).
  bool AwaitsInput(const Worker& worker, std::int64_t within) const {
    if (within == 0) return false;
    return std::any_of(worker.pending.begin(), worker.pending.end(), [&](const Arrival& arrival) {
      return arrival.time < events_.now() + within;
    });
  }

  // The head of its own queue or of the pool: the lesser index m, its own on a tie.
  int PopForward(Worker& worker, std::size_t stage) {
    Fifo& pool = pools_[stage];
    const bool from_pool = MayTakeFromPool(worker, stage) &&
                           (worker.own.empty() || pool.front() / job_.num_pipelines <
                                                      worker.own.front() / job_.num_pipelines);
    if (!from_pool) return worker.own.pop();
    ++worker.orphans_started;
    return pool.pop();
  }

  // Records the start of `kind` and returns its end.
  std::int64_t Start(Worker& worker, int stage, int micro_batch, ActionKind kind) {
    const std::uint32_t op = Order::Op(micro_batch * job_.num_stages + stage, kind);
    order_->ops.push_back(op);
    busy_[At(worker.number)] = true;
    worker.running = op;
    const std::int64_t end =
        events_.now() + times_.durations[At(stage * job_.num_pipelines + worker.pipeline)]
                                        [static_cast<std::size_t>(kind)];
    events_.Push(end, EventQueue::kWorkerFree, worker.number);
    return end;
  }

  void StartForward(Worker& worker, int stage) {
    const int micro_batch = PopForward(worker, At(stage));
    const int slot = micro_batch * job_.num_stages + stage;
    order_->pipeline[At(slot)] = worker.pipeline;
    worker.memory += job_.stages[At(stage)].activation_bytes;
    ++worker.started;
    ++worker.open;
    const std::int64_t end = Start(worker, stage, micro_batch, ActionKind::kForward);
    if (stage + 1 < job_.num_stages) {
      events_.Push(end + times_.send_forward[At(stage)], EventQueue::kForwardArrives, slot + 1);
    } else {
      Announce(worker, slot, end);
    }
  }

  void StartBackward(Worker& worker, int stage) {
    const int micro_batch = worker.inputs.pop();
    --worker.open;
    const std::int64_t end =
        Start(worker, stage, micro_batch,
              job_.decoupled ? ActionKind::kBackwardInput : ActionKind::kBackward);
    if (stage == 0) return;
    const int slot = micro_batch * job_.num_stages + stage - 1;
    Worker& before = workers_[At(job_.WorkerOf(stage - 1, order_->pipeline[At(slot)]))];
    Announce(before, slot, end + times_.send_backward[At(stage - 1)]);
  }

  void StartWeight(Worker& worker, int stage) {
    Start(worker, stage, worker.weights.pop(), ActionKind::kBackwardWeight);
  }

  void Announce(Worker& worker, int slot, std::int64_t time) {
    if (looks_ahead_) worker.pending.push_back({.time = time, .slot = slot});
    events_.Push(time, EventQueue::kInputArrives, slot);
  }

  const FlatJob& job_;
  const SurrogateTimes times_;
  const bool strict_;
  EventQueue events_;
  const DispatchRules* rules_ = nullptr;
  Order* order_ = nullptr;
  std::vector<Worker> workers_;     // by number
  std::vector<std::uint8_t> busy_;  // by number
  std::vector<std::int32_t> queue_space_;
  std::vector<bool> alive_;    // by number
  std::vector<Fifo> pools_;    // by stage: forwards anybody (strict: orphans) may take
  std::vector<bool> touched_;  // by stage: something happened there now
  std::vector<Worker*> idle_;
  bool looks_ahead_ = false;
};

ListScheduler::ListScheduler(const FlatJob& job, SurrogateTimes times, Affinity affinity)
    : simulation_(std::make_unique<Simulation>(job, std::move(times), affinity)) {}

ListScheduler::~ListScheduler() = default;

const SurrogateTimes& ListScheduler::times() const { return simulation_->times(); }

bool ListScheduler::Run(const DispatchRules& rules, Order& order) {
  return simulation_->Run(rules, order);
}

}  // namespace recycle
