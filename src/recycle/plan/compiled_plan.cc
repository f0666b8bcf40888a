#include "recycle/plan/compiled_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "recycle/base/index.h"

namespace recycle {
namespace {

constexpr std::int32_t kWorkKinds = 4;  // F, I, W, B
// What stands for an output that has no position: it is there anyway (the phantom's position);
// nobody has it; from kFirstWaiter down: a worker waits for it.
constexpr std::int32_t kAvailable = 0;
constexpr std::int32_t kAbsent = -1;
constexpr std::int32_t kFirstWaiter = -2;
constexpr Ticks kForEver = std::numeric_limits<Ticks>::min() / 2;

Ticks Slowed(Ticks duration, double factor) {
  return std::llround(static_cast<double>(duration) * factor);
}

}  // namespace

// Builds a CompiledPlan. Workers take turns: each places its actions until one lacks its input,
// then sleeps until that input is placed.
class PlanCompiler {
 public:
  PlanCompiler(const Plan& plan, CompiledPlan& result)
      : plan_(plan), stages_(plan.parallel.num_stages()), result_(result), slots_(result.slots_) {}

  Status Compile() {
    result_.nodes_.clear();
    result_.classes_.clear();
    result_.last_actions_.clear();
    result_.steps_.clear();
    RC_RETURN_IF_ERROR(CheckPlanShape(plan_));
    RC_RETURN_IF_ERROR(CheckMagnitudes());
    LayOutStages();
    AddCosts();
    ClearSlots();
    RC_RETURN_IF_ERROR(MarkAvailable());
    RC_RETURN_IF_ERROR(PlaceAll());
    CollectLastActions();
    result_.ends_.resize(result_.nodes_.size());
    result_.ends_[0] = kForEver;
    result_.clocks_.assign(plan_.workers.size(), 0);
    result_.gates_.assign(Index(stages_) + 1, 0);
    result_.gates_.back() = kForEver;
    return OkStatus();
  }

 private:
  enum class Placing { kPlaced, kBlocked, kFailed };

  using Slot = CompiledPlan::Slot;

  // The part of a worker's order that is not placed yet.
  struct Cursor {
    const Action* next = nullptr;
    const Action* end = nullptr;
  };

  // A thousand passes must fit into 64 bits even if nothing ever ran in parallel.
  Status CheckMagnitudes() const {
    double slowest = 1;
    for (const SlowWorker& slow : plan_.slow) slowest = std::max(slowest, slow.factor);
    double sum = 0;
    for (const StageCosts& stage : plan_.costs.stages) {
      sum += slowest * static_cast<double>(plan_.parallel.data) * plan_.micro_batches *
             (static_cast<double>(stage.forward) + static_cast<double>(stage.backward_input) +
              static_cast<double>(stage.backward_weight));
      sum += static_cast<double>(stage.all_reduce) + static_cast<double>(stage.optimizer);
    }
    for (std::size_t i = 0; i < plan_.costs.send_forward.size(); ++i) {
      sum += static_cast<double>(plan_.parallel.data) * plan_.micro_batches *
             (static_cast<double>(plan_.costs.send_forward[i]) +
              static_cast<double>(plan_.costs.send_backward[i]));
    }
    constexpr double kMaxSum = 4e15;  // ticks; times 1,000 passes below 2^62
    if (sum <= kMaxSum) return OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("the durations of one iteration add up to {:.3g} {}: must be at most {:.0f}; "
                    "choose a larger "
                    "unit",
                    sum / static_cast<double>(kTicksPerUnit), plan_.costs.unit,
                    kMaxSum / static_cast<double>(kTicksPerUnit)));
  }

  void LayOutStages() {
    stage_column_.resize(Index(stages_));
    stage_local_.resize(Index(stages_));
    for (int column = 0; column < plan_.parallel.pipeline; ++column) {
      std::int32_t local = 0;
      for (const StageId stage : StagesOfColumn(plan_.parallel, StageId(column))) {
        stage_column_[Index(stage.value())] = column;
        stage_local_[Index(stage.value())] = local++;
      }
    }
  }

  // Cost classes: a block for every column, then one for every slow worker; a block is the column's
  // stages times the kinds.
  void AddCosts() {
    const std::int32_t block = plan_.parallel.virtual_stages * kWorkKinds;
    for (int column = 0; column < plan_.parallel.pipeline; ++column) AddBlock(column, 1.0);
    for (const WorkerSchedule& entry : plan_.workers) {
      first_class_.push_back(entry.worker.stage.value() * block);
    }
    for (const SlowWorker& slow : plan_.slow) {
      for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
        if (plan_.workers[w].worker != slow.worker) continue;
        first_class_[w] = static_cast<std::int32_t>(result_.classes_.size());
        AddBlock(slow.worker.stage.value(), slow.factor);
      }
    }
    result_.staggered_ = plan_.options.staggered;
    for (int s = 0; s < stages_; ++s) {
      const StageCosts& costs = plan_.costs.stages[Index(s)];
      const bool committed =
          std::count(plan_.committed.begin(), plan_.committed.end(), StageId(s)) > 0;
      result_.steps_.push_back({costs.all_reduce, costs.optimizer, committed});
    }
  }

  void AddBlock(int column, double factor) {
    for (const StageId stage : StagesOfColumn(plan_.parallel, StageId(column))) {
      const std::int32_t s = stage.value();
      const StageCosts& costs = plan_.costs.stages[Index(s)];
      const Ticks forward_send = s > 0 ? plan_.costs.send_forward[Index(s) - 1] : 0;
      const Ticks backward_send = s + 1 < stages_ ? plan_.costs.send_backward[Index(s)] : 0;
      const auto add = [&](ActionKind kind, Ticks input_send, std::int32_t gate) {
        result_.classes_.push_back({Slowed(DurationOf(costs, kind), factor), input_send, gate});
      };
      add(ActionKind::kForward, forward_send, s);
      add(ActionKind::kBackwardInput, backward_send, stages_);
      add(ActionKind::kBackwardWeight, 0, stages_);
      add(ActionKind::kBackward, backward_send, stages_);
    }
  }

  // Rows of M slots, a row for each pipeline and stage, with a row before the first stage and one
  // after the last whose outputs are always there: neighbours are one row apart, without
  // exceptions.
  Slot& SlotOf(std::int32_t stage, MicroBatch b) {
    return slots_[(Index(b.home.value()) * Index(stages_ + 2) + Index(stage + 1)) * RowSize() +
                  Index(b.index)];
  }
  std::size_t RowSize() const { return Index(plan_.micro_batches); }

  static std::size_t OutputIndex(ActionKind kind) { return kind == ActionKind::kForward ? 0 : 1; }

  void FillRow(int pipeline, std::int32_t stage, std::int32_t state) {
    std::fill_n(&SlotOf(stage, MicroBatch{PipelineId(pipeline), 0}), RowSize(),
                Slot{{state, state}, kAbsent});
  }

  void ClearSlots() {
    slots_.assign(Index(plan_.parallel.data) * Index(stages_ + 2) * RowSize(),
                  Slot{{kAbsent, kAbsent}, kAbsent});
    for (int k = 0; k < plan_.parallel.data; ++k) {
      FillRow(k, -1, kAvailable);
      FillRow(k, stages_, kAvailable);
    }
  }

  bool InRange(const Action& action, int column) const {
    const std::int32_t stage = action.stage.value();
    const MicroBatch b = action.micro_batch;
    return stage >= 0 && stage < stages_ && stage_column_[Index(stage)] == column &&
           b.home.value() >= 0 && b.home.value() < plan_.parallel.data && b.index >= 0 &&
           b.index < plan_.micro_batches;
  }

  // Plans for the rest of an iteration: what is done needs no one any more, and on committed stages
  // neither does what nobody regenerates (its output is still around).
  Status MarkAvailable() {
    if (plan_.initial.empty()) return OkStatus();
    const auto mark = [this](WorkerId worker, const std::vector<Action>& actions,
                             std::int32_t value) -> Status {
      for (const Action& action : actions) {
        if (!HasMicroBatch(action.kind) || action.kind == ActionKind::kBackwardWeight) continue;
        if (!InRange(action, worker.stage.value())) return OutOfRange(worker, action);
        SlotOf(action.stage.value(), action.micro_batch).outputs[OutputIndex(action.kind)] = value;
      }
      return OkStatus();
    };
    for (const StageId stage : plan_.committed) {
      for (int k = 0; k < plan_.parallel.data; ++k) FillRow(k, stage.value(), kAvailable);
    }
    for (const InitialState& state : plan_.initial) {
      RC_RETURN_IF_ERROR(mark(state.worker, state.done, kAvailable));
    }
    for (const WorkerSchedule& entry : plan_.workers) {
      RC_RETURN_IF_ERROR(mark(entry.worker, entry.actions, kAbsent));
    }
    return OkStatus();
  }

  Status PlaceAll() {
    std::size_t total = 1;
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
      const std::vector<Action>& actions = plan_.workers[w].actions;
      total += actions.size();
      cursors_.push_back({actions.data(), actions.data() + actions.size()});
    }
    result_.nodes_.reserve(total);
    result_.nodes_.emplace_back();
    // Last in, first out: one pipeline is placed as far as it goes before the next begins, so that
    // only its few orders and slots are in use at a time.
    for (std::size_t w = cursors_.size(); w-- > 0;) ready_.push_back(static_cast<std::int32_t>(w));
    while (!ready_.empty()) {
      const std::int32_t worker = ready_.back();
      ready_.pop_back();
      if (!Advance(worker)) return error_;
    }
    for (std::size_t w = 0; w < cursors_.size(); ++w) {
      if (cursors_[w].next != cursors_[w].end) return Stuck(w);
    }
    return OkStatus();
  }

  // Places the actions of `worker` until one lacks its input; false after an error.
  bool Advance(std::int32_t worker) {
    const std::int32_t column = plan_.workers[Index(worker)].worker.stage.value();
    Cursor& cursor = cursors_[Index(worker)];
    // Two cache lines; there are more orders in turn than hardware follows.
    constexpr std::ptrdiff_t kAhead = 8;
    if (cursor.end - cursor.next > kAhead) __builtin_prefetch(cursor.next + kAhead);
    for (; cursor.next != cursor.end; ++cursor.next) {
      const Action& action = *cursor.next;
      if (!HasMicroBatch(action.kind)) continue;
      if (!InRange(action, column)) {
        error_ = OutOfRange(plan_.workers[Index(worker)].worker, action);
        return false;
      }
      switch (Place(worker, action)) {
        case Placing::kPlaced:
          break;
        case Placing::kBlocked:
          return true;
        case Placing::kFailed:
          return false;
      }
    }
    return true;
  }

  Placing Place(std::int32_t worker, const Action& action) {
    Slot* const slot = &SlotOf(action.stage.value(), action.micro_batch);
    if (action.kind == ActionKind::kBackwardWeight) {
      if (!HasOwn(*slot, 1, worker)) return LacksOwn(worker, action, ActionKind::kBackwardInput);
      AddNode(kAvailable, worker, action);
      return Placing::kPlaced;
    }
    const bool forward = action.kind == ActionKind::kForward;
    if (!forward && !HasOwn(*slot, 0, worker)) {
      return LacksOwn(worker, action, ActionKind::kForward);
    }
    const std::size_t index = OutputIndex(action.kind);
    const Slot* const neighbour = forward ? slot - RowSize() : slot + RowSize();
    const std::int32_t input = neighbour->outputs[index];
    std::int32_t& own = slot->outputs[index];
    if (own >= 0) return Fail(Refuse(worker, action, "runs twice"));
    if (input < 0) return Sleep(worker, action);
    if (own <= kFirstWaiter) ready_.push_back(kFirstWaiter - own);
    own = AddNode(input, worker, action);
    slot->worker = worker;
    return Placing::kPlaced;
  }

  std::int32_t AddNode(std::int32_t input, std::int32_t worker, const Action& action) {
    const std::int32_t local = stage_local_[Index(action.stage.value())];
    result_.nodes_.push_back({input, worker,
                              first_class_[Index(worker)] + local * kWorkKinds +
                                  static_cast<std::int32_t>(action.kind)});
    return static_cast<std::int32_t>(result_.nodes_.size()) - 1;
  }

  Placing Sleep(std::int32_t worker, const Action& action) {
    const int step = action.kind == ActionKind::kForward ? -1 : 1;
    std::int32_t& input =
        SlotOf(action.stage.value() + step, action.micro_batch).outputs[OutputIndex(action.kind)];
    if (input <= kFirstWaiter) return Fail(Refuse(worker, action, "runs twice"));
    input = kFirstWaiter - worker;
    return Placing::kBlocked;
  }

  // I and B need their F, W its I: placed before, on the same worker or before the plan.
  static bool HasOwn(const Slot& slot, std::size_t index, std::int32_t worker) {
    return slot.outputs[index] >= 0 && (slot.worker == worker || slot.worker == kAbsent);
  }

  Placing LacksOwn(std::int32_t worker, const Action& action, ActionKind kind) {
    const WorkerSchedule& entry = plan_.workers[Index(worker)];
    const Action needed{kind, action.stage, action.micro_batch};
    if (std::count(entry.actions.begin(), entry.actions.end(), needed) > 0) {
      return Fail(absl::FailedPreconditionError(fmt::format("worker {} runs {} before {}: deadlock",
                                                            ToString(entry.worker),
                                                            ToString(action), ToString(needed))));
    }
    return Fail(
        Refuse(worker, action, "needs " + ToString(needed) + ", which this worker never runs"));
  }

  Placing Fail(Status error) {
    error_ = std::move(error);
    return Placing::kFailed;
  }

  Status OutOfRange(WorkerId worker, const Action& action) const {
    return absl::InvalidArgumentError(
        fmt::format("worker {} runs {}: no such stage on this worker, or no such micro-batch",
                    ToString(worker), ToString(action)));
  }

  Status Refuse(std::int32_t worker, const Action& action, const std::string& why) const {
    return absl::InvalidArgumentError(fmt::format(
        "worker {}: {} {}", ToString(plan_.workers[Index(worker)].worker), ToString(action), why));
  }

  // Names the action that blocks worker `w`: its input comes too late, or never.
  Status Stuck(std::size_t w) const {
    const Action& action = *cursors_[w].next;
    const bool forward = action.kind == ActionKind::kForward;
    Action needed{forward ? ActionKind::kForward : ActionKind::kBackwardInput,
                  StageId(action.stage.value() + (forward ? -1 : 1)), action.micro_batch};
    for (const WorkerSchedule& entry : plan_.workers) {
      for (const Action& other : entry.actions) {
        const bool same_half = HasMicroBatch(other.kind) &&
                               other.kind != ActionKind::kBackwardWeight &&
                               (other.kind == ActionKind::kForward) == forward;
        if (same_half && other.stage == needed.stage && other.micro_batch == needed.micro_batch) {
          return absl::FailedPreconditionError(fmt::format(
              "deadlock: worker {} cannot run {}, as {} of worker {} cannot run before it",
              ToString(plan_.workers[w].worker), ToString(action), ToString(other),
              ToString(entry.worker)));
        }
      }
    }
    return Refuse(static_cast<std::int32_t>(w), action,
                  "needs " + ToString(needed) + ", which no worker runs");
  }

  void CollectLastActions() {
    std::vector<std::int32_t> last(plan_.workers.size() * Index(plan_.parallel.virtual_stages), 0);
    const std::size_t locals = Index(plan_.parallel.virtual_stages);
    for (std::size_t p = 1; p < result_.nodes_.size(); ++p) {
      const CompiledPlan::Node& node = result_.nodes_[p];
      const std::int32_t local = (node.cost_class - first_class_[Index(node.worker)]) / kWorkKinds;
      last[Index(node.worker) * locals + Index(local)] = static_cast<std::int32_t>(p);
    }
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
      const auto stages = StagesOfColumn(plan_.parallel, plan_.workers[w].worker.stage);
      for (std::size_t local = 0; local < locals; ++local) {
        const std::int32_t position = last[w * locals + local];
        if (position > 0) result_.last_actions_.push_back({stages[local].value(), position});
      }
    }
  }

  const Plan& plan_;
  const std::int32_t stages_;
  CompiledPlan& result_;
  std::vector<Slot>& slots_;
  std::vector<std::int32_t> stage_column_;
  std::vector<std::int32_t> stage_local_;  // index among the stages of its column
  std::vector<std::int32_t> first_class_;  // per worker
  std::vector<Cursor> cursors_;            // per worker
  std::vector<std::int32_t> ready_;        // workers that may go on
  Status error_;
};

Status CompiledPlan::Compile(const Plan& plan) { return PlanCompiler(plan, *this).Compile(); }

std::vector<Ticks> CompiledPlan::RunPass(const std::vector<Ticks>& releases) {
  std::copy(releases.begin(), releases.end(), gates_.begin());
  for (std::size_t p = 1; p < nodes_.size(); ++p) {
    const Node& node = nodes_[p];
    const CostClass& cost = classes_[Index(node.cost_class)];
    Ticks& clock = clocks_[Index(node.worker)];
    const Ticks input = ends_[Index(node.input)] + cost.input_send;
    clock = std::max(std::max(clock, input), gates_[Index(cost.gate)]) + cost.duration;
    ends_[p] = clock;
  }
  std::vector<Ticks> ends = releases;
  for (const LastAction& last : last_actions_) {
    Ticks& end = ends[Index(last.stage)];
    end = std::max(end, ends_[Index(last.position)]);
  }
  Ticks slowest_reduce = kForEver;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    if (!steps_[s].committed)
      slowest_reduce = std::max(slowest_reduce, ends[s] + steps_[s].all_reduce);
  }
  for (std::size_t s = 0; s < ends.size(); ++s) {
    if (steps_[s].committed) continue;
    const Ticks reduced = staggered_ ? ends[s] + steps_[s].all_reduce : slowest_reduce;
    ends[s] = reduced + steps_[s].optimizer;
  }
  return ends;
}

std::vector<std::vector<TimedAction>> CompiledPlan::TimedActions(const Plan& plan) const {
  std::vector<std::vector<TimedAction>> timed(plan.workers.size());
  std::vector<std::size_t> heads(plan.workers.size(), 0);
  for (std::size_t p = 1; p < nodes_.size(); ++p) {
    const std::size_t w = Index(nodes_[p].worker);
    const std::vector<Action>& actions = plan.workers[w].actions;
    while (!HasMicroBatch(actions[heads[w]].kind)) ++heads[w];
    const Ticks duration = classes_[Index(nodes_[p].cost_class)].duration;
    timed[w].push_back({actions[heads[w]++], ends_[p] - duration, ends_[p]});
  }
  return timed;
}

}  // namespace recycle
