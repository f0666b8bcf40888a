#include "recycle/planner/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

struct Step {
  std::int32_t position;  // stage * N + micro-batch
  std::int32_t worker;
  std::int32_t action_class;
};

// The large arrays of a Passes, kept between orders: fetching fresh memory from the system would
// take longer than timing.
struct Scratch {
  std::vector<Step> steps;
  std::vector<Ticks> forward_end;   // by position
  std::vector<Ticks> backward_end;  // by position, of I or B
};

// Passes of one order, each starting where the pass before ended. Times are kept stage by stage, as
// neighbours in an order are mostly the same action of neighbouring micro-batches.
class Passes {
 public:
  Passes(const FlatJob& job, const Order& order, Scratch& scratch)
      : job_(job),
        steps_(scratch.steps),
        forward_end_(scratch.forward_end),
        backward_end_(scratch.backward_end),
        worker_free_(Index(job.num_workers()), 0),
        release_(Index(job.num_stages), 0),
        stage_end_(Index(job.num_stages), 0) {
    MakeClasses();
    forward_end_.resize(Index(job.num_slots()));
    backward_end_.resize(Index(job.num_slots()));
    steps_.clear();
    steps_.reserve(order.ops.size());
    for (const std::uint32_t op : order.ops) {
      const int slot = Order::SlotOf(op);
      const int micro_batch = job.MicroBatchAt(slot);
      const int stage = slot - micro_batch * job.num_stages;
      const int pipeline = order.pipeline[Index(slot)];
      const int speed = job.has_stragglers ? stage * job.num_pipelines + pipeline : stage;
      steps_.push_back({.position = stage * job.num_micro_batches + micro_batch,
                        .worker = job.WorkerOf(stage, pipeline),
                        .action_class = speed * 4 + static_cast<int>(Order::KindOf(op))});
    }
  }

  // One iteration: from the releases to the end of every stage's step; these are the next releases.
  void Run() {
    std::fill(stage_end_.begin(), stage_end_.end(), 0);
    for (const Step& step : steps_) RunStep(step);
    ends_.resize(stage_end_.size());
    Ticks slowest = 0;
    for (std::size_t stage = 0; stage < ends_.size(); ++stage) {
      ends_[stage] = stage_end_[stage] + job_.stages[stage].all_reduce;
      slowest = std::max(slowest, ends_[stage]);
    }
    for (std::size_t stage = 0; stage < ends_.size(); ++stage) {
      ends_[stage] = (job_.staggered ? ends_[stage] : slowest) + job_.stages[stage].optimizer;
    }
    shortest_ = std::numeric_limits<Ticks>::max();
    longest_ = 0;
    for (std::size_t stage = 0; stage < ends_.size(); ++stage) {
      shortest_ = std::min(shortest_, ends_[stage] - release_[stage]);
      longest_ = std::max(longest_, ends_[stage] - release_[stage]);
    }
    release_ = ends_;
  }

  Ticks end() const { return *std::max_element(ends_.begin(), ends_.end()); }
  Ticks shortest() const { return shortest_; }
  Ticks longest() const { return longest_; }

 private:
  // Actions of one kind and stage, and of one worker where some are slow.
  struct ActionClass {
    Ticks duration;
    Ticks input_send;
    std::int32_t stage;
    ActionKind kind;
    bool has_input;  // from another stage
  };

  void MakeClasses() {
    const int speeds = job_.has_stragglers ? job_.num_pipelines : 1;
    for (int stage = 0; stage < job_.num_stages; ++stage) {
      for (int k = 0; k < speeds; ++k) {
        const int pipeline =
            job_.has_stragglers ? k : job_.live[Index(job_.column[Index(stage)])].front();
        for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackwardInput,
                                      ActionKind::kBackwardWeight, ActionKind::kBackward}) {
          const bool forward = kind == ActionKind::kForward;
          const bool has_input =
              forward ? stage > 0
                      : kind != ActionKind::kBackwardWeight && stage + 1 < job_.num_stages;
          const Ticks send = !has_input ? 0
                             : forward  ? job_.send_forward[Index(stage - 1)]
                                        : job_.send_backward[Index(stage)];
          classes_.push_back(
              {.duration = job_.durations[Index(stage * job_.num_pipelines + pipeline)]
                                         [static_cast<std::size_t>(kind)],
               .input_send = send,
               .stage = stage,
               .kind = kind,
               .has_input = has_input});
        }
      }
    }
  }

  void RunStep(const Step& step) {
    const ActionClass& own = classes_[Index(step.action_class)];
    Ticks& free = worker_free_[Index(step.worker)];
    const std::size_t at = Index(step.position);
    const std::size_t stage_stride = Index(job_.num_micro_batches);
    Ticks start = free;
    if (own.kind == ActionKind::kForward) {
      start = std::max(start, release_[Index(own.stage)]);
      if (own.has_input) start = std::max(start, forward_end_[at - stage_stride] + own.input_send);
      free = forward_end_[at] = start + own.duration;
      return;
    }
    if (own.has_input) start = std::max(start, backward_end_[at + stage_stride] + own.input_send);
    free = start + own.duration;
    if (own.kind != ActionKind::kBackwardWeight) backward_end_[at] = free;
    Ticks& stage_end = stage_end_[Index(own.stage)];
    if (own.kind != ActionKind::kBackwardInput) stage_end = std::max(stage_end, free);
  }

  const FlatJob& job_;
  std::vector<ActionClass> classes_;
  std::vector<Step>& steps_;
  std::vector<Ticks>& forward_end_;
  std::vector<Ticks>& backward_end_;
  std::vector<Ticks> worker_free_;
  std::vector<Ticks> release_;
  std::vector<Ticks> stage_end_;  // last W or B
  std::vector<Ticks> ends_;       // of the steps
  Ticks shortest_ = 0;
  Ticks longest_ = 0;
};

// Emits the actions of per-worker sequences as their inputs become ready (Kahn's algorithm).
class Merger {
 public:
  Merger(const FlatJob& job, const std::vector<std::vector<std::uint32_t>>& sequences,
         const std::vector<std::int32_t>& pipeline)
      : job_(job),
        sequences_(sequences),
        pipeline_(pipeline),
        next_(sequences.size(), 0),
        done_(Index(job.num_slots()) * 4, false) {}

  std::vector<std::uint32_t> Run() {
    for (std::size_t worker = 0; worker < sequences_.size(); ++worker) Advance(worker);
    while (!woken_.empty()) {
      const std::size_t worker = woken_.back();
      woken_.pop_back();
      Advance(worker);
    }
    return std::move(ops_);
  }

 private:
  bool Ready(std::uint32_t op) const {
    const int slot = Order::SlotOf(op);
    const int stage = job_.StageAt(slot);
    switch (Order::KindOf(op)) {
      case ActionKind::kForward:
        return stage == 0 || done_[Order::Op(slot - 1, ActionKind::kForward)];
      case ActionKind::kBackwardWeight:
        return done_[Order::Op(slot, ActionKind::kBackwardInput)];
      case ActionKind::kBackwardInput:
      case ActionKind::kBackward:
        if (!done_[Order::Op(slot, ActionKind::kForward)]) return false;
        return stage + 1 == job_.num_stages ||
               done_[Order::Op(slot + 1, ActionKind::kBackwardInput)] ||
               done_[Order::Op(slot + 1, ActionKind::kBackward)];
      case ActionKind::kReduceGrad:
      case ActionKind::kValidate:
      case ActionKind::kStep:
        break;
    }
    return false;
  }

  void Advance(std::size_t worker) {
    const std::vector<std::uint32_t>& sequence = sequences_[worker];
    while (next_[worker] < sequence.size() && Ready(sequence[next_[worker]])) {
      const std::uint32_t op = sequence[next_[worker]++];
      done_[op] = true;
      ops_.push_back(op);
      Wake(op);
    }
  }

  void Wake(std::uint32_t op) {
    const int slot = Order::SlotOf(op);
    const int stage = job_.StageAt(slot);
    if (Order::KindOf(op) == ActionKind::kForward) {
      if (stage + 1 < job_.num_stages) WakeSlot(slot + 1, stage + 1);
    } else if (Order::KindOf(op) != ActionKind::kBackwardWeight && stage > 0) {
      WakeSlot(slot - 1, stage - 1);
    }
  }

  void WakeSlot(int slot, int stage) {
    woken_.push_back(Index(job_.WorkerOf(stage, pipeline_[Index(slot)])));
  }

  const FlatJob& job_;
  const std::vector<std::vector<std::uint32_t>>& sequences_;
  const std::vector<std::int32_t>& pipeline_;
  std::vector<std::size_t> next_;  // by worker
  std::vector<bool> done_;         // by op
  std::vector<std::size_t> woken_;
  std::vector<std::uint32_t> ops_;
};

}  // namespace

PlanFigures EvaluateOrder(const FlatJob& job, const Order& order) {
  constexpr int kPasses = 8;
  constexpr int kMaxPasses = 1000;
  const bool bracketed = job.num_stages == job.num_columns;
  thread_local Scratch scratch;
  Passes passes(job, order, scratch);
  PlanFigures figures;
  Ticks low = 0;
  Ticks high = std::numeric_limits<Ticks>::max();
  Ticks half_way = 0;
  for (int pass = 1; pass <= kMaxPasses; ++pass) {
    passes.Run();
    if (pass == 1) figures.makespan = passes.end();
    if (pass == kPasses / 2) half_way = passes.end();
    low = std::max(low, passes.shortest());
    high = std::min(high, passes.longest());
    if (bracketed && low == high) {
      figures.period = low;
      figures.certified = true;
      return figures;
    }
    if (!bracketed && pass == kPasses) {
      figures.period = (passes.end() - half_way) / (kPasses / 2);
      return figures;
    }
  }
  figures.period = high;
  return figures;
}

Status CheckOrder(const FlatJob& job, const Order& order) {
  if (order.pipeline.size() != Index(job.num_slots()) || order.ops.size() != job.num_actions()) {
    return absl::InternalError(
        fmt::format("the order has {} actions, must have {}", order.ops.size(), job.num_actions()));
  }
  std::vector<bool> alive(Index(job.num_workers()), false);
  for (int column = 0; column < job.num_columns; ++column) {
    for (const int k : job.live[Index(column)]) alive[Index(column * job.num_pipelines + k)] = true;
  }
  enum : std::uint8_t { kForwardDone = 1, kInputDone = 2, kWeightDone = 4, kAllDone = 7 };
  std::vector<std::uint8_t> done(Index(job.num_slots()) + 1, 0);
  for (const std::uint32_t op : order.ops) {
    const std::size_t slot = Index(Order::SlotOf(op));
    if (slot >= order.pipeline.size()) return absl::InternalError(fmt::format("slot {}", slot));
    const int stage = job.StageAt(static_cast<int>(slot));
    const bool has_gradient = stage + 1 == job.num_stages || (done[slot + 1] & kInputDone) != 0;
    bool legal = order.pipeline[slot] >= 0 && order.pipeline[slot] < job.num_pipelines &&
                 alive[Index(job.WorkerOf(stage, order.pipeline[slot]))];
    std::uint8_t now_done = kForwardDone;
    switch (Order::KindOf(op)) {
      case ActionKind::kForward:
        legal = legal && done[slot] == 0 && (stage == 0 || (done[slot - 1] & kForwardDone) != 0);
        break;
      case ActionKind::kBackwardInput:
        legal = legal && job.decoupled && done[slot] == kForwardDone && has_gradient;
        now_done = kInputDone;
        break;
      case ActionKind::kBackwardWeight:
        legal = legal && job.decoupled && done[slot] == (kForwardDone | kInputDone);
        now_done = kWeightDone;
        break;
      case ActionKind::kBackward:
        legal = legal && !job.decoupled && done[slot] == kForwardDone && has_gradient;
        now_done = kInputDone | kWeightDone;
        break;
      case ActionKind::kReduceGrad:
      case ActionKind::kValidate:
      case ActionKind::kStep:
        legal = false;
    }
    if (!legal) {
      return absl::InternalError(fmt::format("action {} of slot {} (stage {}) breaks a rule",
                                             std::string(KindText(Order::KindOf(op))), slot,
                                             stage));
    }
    done[slot] |= now_done;
  }
  const bool all =
      std::all_of(done.begin(), done.end() - 1, [](std::uint8_t d) { return d == kAllDone; });
  if (!all) return absl::InternalError("the order leaves actions out");
  if (!FitsMemory(job, order)) return absl::InternalError("the order exceeds a capacity");
  return OkStatus();
}

bool FitsMemory(const FlatJob& job, const Order& order) {
  std::vector<double> held(Index(job.num_workers()), 0);
  for (const std::uint32_t op : order.ops) {
    const int slot = Order::SlotOf(op);
    const int stage = job.StageAt(slot);
    const StageCosts& costs = job.stages[Index(stage)];
    double& memory = held[Index(job.WorkerOf(stage, order.pipeline[Index(slot)]))];
    switch (Order::KindOf(op)) {
      case ActionKind::kForward:
        memory += costs.activation_bytes;
        if (memory > job.capacity[Index(job.column[Index(stage)])]) return false;
        break;
      case ActionKind::kBackwardInput:
        memory -= costs.activation_bytes - costs.deferred_bytes;
        break;
      case ActionKind::kBackwardWeight:
        memory -= costs.deferred_bytes;
        break;
      case ActionKind::kBackward:
        memory -= costs.activation_bytes;
        break;
      case ActionKind::kReduceGrad:
      case ActionKind::kValidate:
      case ActionKind::kStep:
        RC_CHECK(false) << "an order has actions with a micro-batch only";
    }
  }
  return true;
}

int MovedFromLiveHome(const FlatJob& job, const Order& order) {
  std::vector<bool> alive(Index(job.num_workers()), false);
  for (int column = 0; column < job.num_columns; ++column) {
    for (const int k : job.live[Index(column)]) alive[Index(column * job.num_pipelines + k)] = true;
  }
  int moved = 0;
  for (int slot = 0; slot < job.num_slots(); ++slot) {
    const int home = job.MicroBatchAt(slot) % job.num_pipelines;
    const bool home_lives = alive[Index(job.WorkerOf(job.StageAt(slot), home))];
    if (home_lives && order.pipeline[Index(slot)] != home) ++moved;
  }
  return moved;
}

Schedule ToSchedule(const FlatJob& job, const Order& order) {
  std::vector<std::size_t> lengths(Index(job.num_workers()), 0);
  for (const std::uint32_t op : order.ops) {
    const int slot = Order::SlotOf(op);
    ++lengths[Index(job.WorkerOf(job.StageAt(slot), order.pipeline[Index(slot)]))];
  }
  Schedule schedule;
  std::vector<std::int32_t> entry(Index(job.num_workers()), -1);
  for (int k = 0; k < job.num_pipelines; ++k) {
    for (int column = 0; column < job.num_columns; ++column) {
      if (!std::binary_search(job.live[Index(column)].begin(), job.live[Index(column)].end(), k))
        continue;
      const std::size_t worker = Index(column * job.num_pipelines + k);
      entry[worker] = static_cast<std::int32_t>(schedule.size());
      schedule.push_back({.worker = WorkerId{PipelineId(k), StageId(column)}, .actions = {}});
      schedule.back().actions.reserve(lengths[worker] +
                                      3 * Index(job.num_stages / job.num_columns));
    }
  }
  for (const std::uint32_t op : order.ops) {
    const int slot = Order::SlotOf(op);
    const int stage = job.StageAt(slot);
    const std::int32_t index = entry[Index(job.WorkerOf(stage, order.pipeline[Index(slot)]))];
    RC_CHECK(index >= 0) << "slot " << slot << " is on a dead worker";
    schedule[Index(index)].actions.push_back(
        {.kind = Order::KindOf(op),
         .stage = StageId(stage),
         .micro_batch = job.MicroBatchOf(job.MicroBatchAt(slot))});
  }
  return schedule;
}

StatusOr<Order> OrderFromSequences(const FlatJob& job,
                                   const std::vector<std::vector<std::uint32_t>>& sequences,
                                   std::vector<std::int32_t> pipeline) {
  Order order;
  order.ops = Merger(job, sequences, pipeline).Run();
  order.pipeline = std::move(pipeline);
  std::size_t total = 0;
  for (const std::vector<std::uint32_t>& sequence : sequences) total += sequence.size();
  if (order.ops.size() != total) {
    return absl::FailedPreconditionError(
        fmt::format("the order deadlocks after {} of {} actions", order.ops.size(), total));
  }
  return order;
}

}  // namespace recycle
