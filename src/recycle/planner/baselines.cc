#include "recycle/planner/baselines.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "recycle/base/index.h"
#include "recycle/planner/fault_free.h"

namespace recycle {
namespace {

// The shortest durations of a stage's live workers: of F, of what the stage before waits for (I, or
// B when coupled), and of the W that then remains.
struct Fastest {
  Ticks forward = std::numeric_limits<Ticks>::max();
  Ticks backward = std::numeric_limits<Ticks>::max();
  Ticks weight = std::numeric_limits<Ticks>::max();
};

Fastest FastestOf(const FlatJob& job, int stage) {
  Fastest fastest;
  for (const int k : job.live[Index(stage)]) {
    const auto& own = job.durations[Index(stage * job.num_pipelines + k)];
    fastest.forward = std::min(fastest.forward, own[0]);
    fastest.backward = std::min(fastest.backward, own[job.decoupled ? 1 : 3]);
    fastest.weight = std::min(fastest.weight, job.decoupled ? own[2] : 0);
  }
  return fastest;
}

// The event-driven dispatch of naive re-routing.
class NaiveSimulation {
 public:
  explicit NaiveSimulation(const FlatJob& job) : job_(job), workers_(Index(job.num_workers())) {
    order_.pipeline = RoundRobinAssignment(job);
    for (int micro_batch = 0; micro_batch < job.num_micro_batches; ++micro_batch) {
      const int slot = micro_batch * job.num_stages;
      WorkerAt(slot).forwards.push(micro_batch);
    }
  }

  StatusOr<Order> Run() {
    for (int worker = 0; worker < job_.num_workers(); ++worker) Dispatch(worker);
    std::vector<int> touched;
    while (!events_.empty()) {
      const Ticks now = std::get<0>(events_.top());
      touched.clear();
      while (!events_.empty() && std::get<0>(events_.top()) == now) {
        const auto [time, type, slot] = events_.top();
        events_.pop();
        touched.push_back(Handle(type, slot));
      }
      now_ = now;
      std::sort(touched.begin(), touched.end());
      for (const int worker : touched) Dispatch(worker);  // twice is as good as once
    }
    if (order_.ops.size() != job_.num_actions()) {
      return absl::FailedPreconditionError(
          "no plan: naive re-routing deadlocks within the capacities; the nearest valid choice is "
          "method adaptive");
    }
    return std::move(order_);
  }

 private:
  enum class EventType { kForwardHere, kBackwardHere, kForwardDone, kBackwardDone };

  using LeastFirst = std::priority_queue<int, std::vector<int>, std::greater<>>;

  struct Worker {
    bool busy = false;
    double memory = 0;
    LeastFirst forwards;  // ready, by micro-batch number: least (m, k) first
    LeastFirst backwards;
  };

  int NumberOf(int slot) const {
    return job_.WorkerOf(job_.StageAt(slot), order_.pipeline[Index(slot)]);
  }
  Worker& WorkerAt(int slot) { return workers_[Index(NumberOf(slot))]; }

  // Applies an event and returns the worker it concerns.
  int Handle(EventType type, int slot) {
    Worker& worker = WorkerAt(slot);
    switch (type) {
      case EventType::kForwardHere:
        worker.forwards.push(job_.MicroBatchAt(slot));
        break;
      case EventType::kBackwardHere:
        worker.backwards.push(job_.MicroBatchAt(slot));
        break;
      case EventType::kBackwardDone:
        worker.memory -= job_.stages[Index(job_.StageAt(slot))].activation_bytes;
        worker.busy = false;
        break;
      case EventType::kForwardDone:
        worker.busy = false;
        break;
    }
    return NumberOf(slot);
  }

  void Dispatch(int number) {
    Worker& worker = workers_[Index(number)];
    if (worker.busy) return;
    const int stage = number / job_.num_pipelines;
    const auto& durations =
        job_.durations[Index(stage * job_.num_pipelines + number % job_.num_pipelines)];
    if (!worker.backwards.empty()) {
      const int slot = worker.backwards.top() * job_.num_stages + stage;
      worker.backwards.pop();
      StartBackward(worker, slot, stage, durations);
      return;
    }
    const double needed = job_.stages[Index(stage)].activation_bytes;
    if (worker.forwards.empty() || worker.memory + needed > job_.capacity[Index(stage)]) return;
    const int slot = worker.forwards.top() * job_.num_stages + stage;
    worker.forwards.pop();
    worker.busy = true;
    worker.memory += needed;
    order_.ops.push_back(Order::Op(slot, ActionKind::kForward));
    const Ticks end = now_ + durations[0];
    events_.push({end, EventType::kForwardDone, slot});
    if (stage + 1 == job_.num_stages) {
      events_.push({end, EventType::kBackwardHere, slot});
    } else {
      events_.push({end + job_.send_forward[Index(stage)], EventType::kForwardHere, slot + 1});
    }
  }

  void StartBackward(Worker& worker, int slot, int stage, const std::array<Ticks, 4>& durations) {
    worker.busy = true;
    if (job_.decoupled) {
      order_.ops.push_back(Order::Op(slot, ActionKind::kBackwardInput));
      order_.ops.push_back(Order::Op(slot, ActionKind::kBackwardWeight));
    } else {
      order_.ops.push_back(Order::Op(slot, ActionKind::kBackward));
    }
    const Ticks end = now_ + durations[3];
    events_.push({end, EventType::kBackwardDone, slot});
    if (stage > 0) {
      events_.push(
          {end + job_.send_backward[Index(stage - 1)], EventType::kBackwardHere, slot - 1});
    }
  }

  using Event = std::tuple<Ticks, EventType, int>;

  const FlatJob& job_;
  Order order_;
  std::vector<Worker> workers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Ticks now_ = 0;
};

}  // namespace

StatusOr<Order> MakeGPipe(const FlatJob& job) {
  return MakeFaultFree(job, "gpipe", [&](int column) {
    std::vector<PipelineAction> sequence;
    sequence.reserve(2 * Index(job.micro_batches));
    for (int m = 0; m < job.micro_batches; ++m)
      sequence.push_back({ActionKind::kForward, column, m});
    for (int m = 0; m < job.micro_batches; ++m)
      sequence.push_back({ActionKind::kBackward, column, m});
    return sequence;
  });
}

StatusOr<Order> MakeOneFOneB(const FlatJob& job) {
  return MakeFaultFree(job, "1f1b", [&](int stage) {
    std::vector<PipelineAction> sequence;
    sequence.reserve(2 * Index(job.micro_batches));
    const int warm_up = std::min(job.micro_batches, job.num_stages - 1 - stage);
    for (int m = 0; m < warm_up; ++m) sequence.push_back({ActionKind::kForward, stage, m});
    for (int m = warm_up; m < job.micro_batches; ++m) {
      sequence.push_back({ActionKind::kForward, stage, m});
      sequence.push_back({ActionKind::kBackward, stage, m - warm_up});
    }
    for (int m = job.micro_batches - warm_up; m < job.micro_batches; ++m) {
      sequence.push_back({ActionKind::kBackward, stage, m});
    }
    return sequence;
  });
}

StatusOr<Order> MakeNaive(const FlatJob& job) { return NaiveSimulation(job).Run(); }

Ticks NaiveLowerBound(const FlatJob& job) {
  const Fastest first = FastestOf(job, 0);
  const Ticks step = job.stages[0].all_reduce + job.stages[0].optimizer;
  Ticks bound = 0;
  Ticks way = 0;  // from stage 0's first F to stage i's, and from stage i's last I to stage 0's
  for (int i = 0; i < job.num_stages; ++i) {
    if (i > 0) {
      const Fastest before = FastestOf(job, i - 1);
      way += before.forward + before.backward + job.send_forward[Index(i - 1)] +
             job.send_backward[Index(i - 1)];
    }
    const std::vector<int>& live = job.live[Index(i)];
    const int orphans = job.micro_batches * (job.num_pipelines - static_cast<int>(live.size()));
    for (std::size_t p = 0; p < live.size(); ++p) {
      const auto& own = job.durations[Index(i * job.num_pipelines + live[p])];
      const Ticks load = job.micro_batches + orphans / static_cast<int>(live.size()) +
                         (static_cast<int>(p) < orphans % static_cast<int>(live.size()) ? 1 : 0);
      const Ticks after_input = job.decoupled ? own[2] : 0;
      const Ticks each = own[0] + (job.decoupled ? own[1] + own[2] : own[3]);
      const Ticks to_last_input = load * each - after_input;
      bound = std::max(bound, way + to_last_input + (i > 0 ? first.weight : after_input) + step);
    }
  }
  return bound;
}

std::vector<std::int32_t> RoundRobinAssignment(const FlatJob& job) {
  std::vector<std::int32_t> pipeline(Index(job.num_slots()), -1);
  for (int stage = 0; stage < job.num_stages; ++stage) {
    const std::vector<int>& live = job.live[Index(job.column[Index(stage)])];
    std::size_t orphan = 0;
    for (int k = 0; k < job.num_pipelines; ++k) {
      const bool alive = std::binary_search(live.begin(), live.end(), k);
      for (int m = 0; m < job.micro_batches; ++m) {
        const int slot = (m * job.num_pipelines + k) * job.num_stages + stage;
        pipeline[Index(slot)] = alive ? k : live[orphan++ % live.size()];
      }
    }
  }
  return pipeline;
}

}  // namespace recycle
