#include "recycle/testing/model/recovery_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/base/check.h"

namespace recycle {
namespace {

constexpr int kStagePart = 0;
constexpr int kTiedPart = 1;

std::size_t Size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::size_t Size(BoundaryKind kind) { return static_cast<std::size_t>(kind); }
std::uint64_t Key(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::uint32_t Bit(int position) { return std::uint32_t{1} << position; }

// What stands for the computation.
std::uint64_t Tokens(std::uint64_t seed, std::int32_t iteration, int micro_batch) {
  return HashKeys({1, seed, Key(iteration), Key(micro_batch)});
}
std::uint64_t ForwardOf(std::uint64_t params, std::uint64_t input) {
  return HashKeys({2, params, input});
}
std::uint64_t LossGradient(std::uint64_t output) { return HashKeys({3, output}); }
std::uint64_t InputGradient(std::uint64_t params, std::uint64_t stash, std::uint64_t gradient) {
  return HashKeys({4, params, stash, gradient});
}
std::uint64_t WeightGradient(std::uint64_t stash, std::uint64_t gradient, int part) {
  return HashKeys({5, stash, gradient, Key(part)});
}
std::uint64_t StepOf(std::uint64_t params, const std::array<std::uint64_t, 2>& reduced) {
  return HashKeys({6, params, reduced[0], reduced[1]});
}

}  // namespace

Plan RandomWholePlan(const ModelJob& job, const std::vector<WorkerId>& failed, std::uint64_t seed) {
  Prng prng(seed);
  Plan plan;
  plan.parallel = job.parallel();
  plan.micro_batches = job.micro_batches;
  plan.failed = failed;
  plan.options.staggered = job.staggered;
  StageCosts unit;
  unit.forward = unit.backward_input = unit.backward_weight = kTicksPerUnit;
  plan.costs.stages.assign(Size(job.pipeline), unit);
  plan.costs.send_forward.assign(Size(job.pipeline - 1), 0);
  plan.costs.send_backward = plan.costs.send_forward;
  for (const WorkerId worker : LiveWorkers(plan.parallel, failed)) {
    plan.workers.push_back({worker, {}});
  }
  const int count = job.data * job.micro_batches;
  // Per micro-batch and stage: what is done (0 none, 1 F, 2 I, 3 W) and by whom.
  std::vector<std::vector<int>> done(Size(count), std::vector<int>(Size(job.pipeline)));
  std::vector<std::vector<WorkerSchedule*>> owner(Size(count));
  for (auto& row : owner) {
    for (int stage = 0; stage < job.pipeline; ++stage) {
      std::vector<WorkerSchedule*> peers;
      for (WorkerSchedule& schedule : plan.workers) {
        if (schedule.worker.stage == StageId(stage)) peers.push_back(&schedule);
      }
      RC_CHECK(!peers.empty()) << "stage " << stage << " has no live worker";
      row.push_back(peers[prng.Below(peers.size())]);
    }
  }
  for (int left = 3 * count * job.pipeline; left > 0;) {
    const auto b = static_cast<std::size_t>(prng.Below(Key(count)));
    const auto i = static_cast<std::size_t>(prng.Below(Key(job.pipeline)));
    const int state = done[b][i];
    const bool last = i + 1 == Size(job.pipeline);
    const bool ready = (state == 0 && (i == 0 || done[b][i - 1] >= 1)) ||
                       (state == 1 && (last || done[b][i + 1] >= 2)) || state == 2;
    if (!ready) continue;
    const int number = static_cast<int>(b);
    owner[b][i]->actions.push_back(
        {static_cast<ActionKind>(state),
         StageId(static_cast<int>(i)),
         {PipelineId(number / job.micro_batches), number % job.micro_batches}});
    ++done[b][i];
    --left;
  }
  AddStepActions(plan);
  return plan;
}

// The run without failures.
struct RecoveryModel::Expected {
  // By iteration (one more than there are), then stage.
  std::vector<std::vector<std::uint64_t>> params;
  // By iteration, stage, micro-batch: F's result, and the gradient that I sends down.
  std::vector<std::vector<std::vector<std::uint64_t>>> outputs;
  std::vector<std::vector<std::vector<std::uint64_t>>> gradients;

  explicit Expected(const ModelJob& job) {
    const int stages = job.pipeline;
    const int count = job.data * job.micro_batches;
    params.emplace_back();
    for (int i = 0; i < stages; ++i) params[0].push_back(HashKeys({7, job.seed, Key(i)}));
    for (int t = 0; t < job.iterations; ++t) {
      const std::vector<std::uint64_t> now = params[Size(t)];
      std::vector<std::vector<std::uint64_t>> out(Size(stages),
                                                  std::vector<std::uint64_t>(Size(count)));
      std::vector<std::vector<std::uint64_t>> grad = out;
      std::vector<std::array<std::uint64_t, 2>> sums(Size(stages), {0, 0});
      for (int b = 0; b < count; ++b) {
        for (int i = 0; i < stages; ++i) {
          const std::uint64_t in = i == 0 ? Tokens(job.seed, t, b) : out[Size(i - 1)][Size(b)];
          out[Size(i)][Size(b)] = ForwardOf(now[Size(i)], in);
        }
        for (int i = stages - 1; i >= 0; --i) {
          const std::uint64_t in = i == 0 ? Tokens(job.seed, t, b) : out[Size(i - 1)][Size(b)];
          const std::uint64_t gradient =
              i + 1 == stages ? LossGradient(out[Size(i)][Size(b)]) : grad[Size(i + 1)][Size(b)];
          grad[Size(i)][Size(b)] = InputGradient(now[Size(i)], in, gradient);
          sums[Size(i)][kStagePart] += WeightGradient(in, gradient, kStagePart);
          sums[Size(i)][kTiedPart] += WeightGradient(in, gradient, kTiedPart);
        }
      }
      const bool tied = job.tied && stages > 1;
      const std::uint64_t tied_sum = sums.front()[kTiedPart] + sums.back()[kTiedPart];
      params.emplace_back();
      for (int i = 0; i < stages; ++i) {
        const bool in_unit = tied && (i == 0 || i + 1 == stages);
        params.back().push_back(
            StepOf(now[Size(i)], {sums[Size(i)][kStagePart], in_unit ? tied_sum : 0}));
      }
      outputs.push_back(std::move(out));
      gradients.push_back(std::move(grad));
    }
  }
};

RecoveryModel::RecoveryModel(const ModelJob& job, const BrokenRules& rules)
    : job_(job),
      rules_(rules),
      expected_(std::make_shared<const Expected>(job)),
      workers_(Size(job.data * job.pipeline)),
      rounds_(Size(job.iterations * (job.pipeline + 1))),
      norm_entries_(Size(job.iterations)) {
  RC_CHECK(job.data * job.micro_batches <= kMaxMicroBatches && job.iterations <= kMaxIterations);
  for (int w = 0; w < num_workers(); ++w) At(w).params = expected_->params[0][Size(StageOf(w))];
}

// --- what can run ----------------------------------------------------------------------------

const RecoveryModel::Item* RecoveryModel::Head(const Worker& worker) const {
  if (worker.queue == nullptr || worker.head == worker.queue->size()) return nullptr;
  return &(*worker.queue)[worker.head];
}

bool RecoveryModel::HasFinished(int worker) const {
  return At(worker).version == job_.iterations && Head(At(worker)) == nullptr;
}

bool RecoveryModel::HasInputs(int w, const Item& item) const {
  const Cell& cell = KeptOf(At(w), item.iteration).cells[Size(item.micro_batch)];
  switch (item.action.kind) {
    case ActionKind::kForward:
      return IsFirst(w) || cell.inbox[0].value != 0;
    case ActionKind::kBackwardInput:
      return IsLast(w) || cell.inbox[1].value != 0;
    case ActionKind::kBackwardWeight:
    case ActionKind::kBackward:
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      return true;
  }
  return true;
}

bool RecoveryModel::CanAct(int w) const {
  const Worker& worker = At(w);
  const Item* item = Head(worker);
  if (!worker.alive || item == nullptr || worker.running == 0) return false;
  const bool stopped = worker.promised != worker.running;
  if (stopped && !(rules_.ledger_without_promise && !HasMicroBatch(item->action.kind)))
    return false;
  switch (item->action.kind) {
    case ActionKind::kForward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kBackward:
      return HasInputs(w, *item);
    case ActionKind::kReduceGrad: {
      const Round& round = RoundOf(w, item->iteration, worker.part);
      const std::uint32_t group = GroupOf(w, worker.part);
      if (!worker.obtained) return (round.joined & group) == group;
      return rules_.no_commit_round || (round.obtained & group) == group;
    }
    case ActionKind::kValidate:
      return job_.staggered || NormIsReady(item->iteration);
    case ActionKind::kStep:
      return true;
  }
  return false;
}

bool RecoveryModel::NormIsReady(std::int32_t iteration) const {
  return norm_entries_[Size(iteration)] == Bit(job_.pipeline) - 1;
}

RecoveryModel::Round& RecoveryModel::RoundOf(int worker, std::int32_t iteration, int part) {
  const int place = part == kTiedPart ? job_.pipeline : StageOf(worker);
  return rounds_[Size(iteration * (job_.pipeline + 1) + place)];
}

const RecoveryModel::Round& RecoveryModel::RoundOf(int worker, std::int32_t iteration,
                                                   int part) const {
  const int place = part == kTiedPart ? job_.pipeline : StageOf(worker);
  return rounds_[Size(iteration * (job_.pipeline + 1) + place)];
}

std::uint32_t RecoveryModel::GroupOf(int worker, int part) const {
  std::uint32_t group = 0;
  for (int w = 0; w < num_workers(); ++w) {
    const bool in = part == kTiedPart ? InTiedUnit(w) : StageOf(w) == StageOf(worker);
    if (in) group |= Bit(w);
  }
  return group & members_;
}

// --- what runs -------------------------------------------------------------------------------

void RecoveryModel::Act(int w) {
  RC_CHECK(CanAct(w)) << "worker " << w << " cannot act";
  const Item item = *Head(At(w));
  if (HasMicroBatch(item.action.kind) && !item.regenerates) {
    Check(At(w).version == item.iteration, w, item, "runs at another version");
  }
  switch (item.action.kind) {
    case ActionKind::kForward:
      RunForward(w, item);
      break;
    case ActionKind::kBackwardInput:
      RunInput(w, item);
      break;
    case ActionKind::kBackwardWeight:
      RunWeight(w, item);
      break;
    case ActionKind::kBackward:
      RC_CHECK(false) << "the model's plans are decoupled";
      break;
    case ActionKind::kReduceGrad:
      Reduce(w, item);
      return;
    case ActionKind::kValidate:
      if (!job_.staggered && At(w).version == item.iteration) {
        KeptOf(At(w), item.iteration).has_norm = true;
      }
      break;
    case ActionKind::kStep:
      MakeStep(w, item);
      break;
  }
  Advance(w);
}

std::uint64_t RecoveryModel::ParametersFor(int w, const Item& item) {
  const Worker& worker = At(w);
  if (worker.version == item.iteration) return worker.params;
  const Iteration& kept = KeptOf(worker, item.iteration);
  Check(kept.has_undo, w, item, "regenerates without the bits of that version");
  return kept.undo;
}

void RecoveryModel::RunForward(int w, const Item& item) {
  const std::uint64_t params = ParametersFor(w, item);
  Cell& cell = KeptOf(At(w), item.iteration).cells[Size(item.micro_batch)];
  Check(cell.done == 0, w, item, "runs twice");
  cell.stash =
      IsFirst(w) ? Tokens(job_.seed, item.iteration, item.micro_batch) : cell.inbox[0].value;
  cell.inbox[0] = {};
  cell.output = ForwardOf(params, cell.stash);
  Check(job_.rounding ||
            cell.output ==
                expected_->outputs[Size(item.iteration)][Size(StageOf(w))][Size(item.micro_batch)],
        w, item, "gives another activation than the run without failures");
  if (item.regenerates) {
    ++num_regenerations_;
  } else {
    cell.done = 1;
  }
  if (IsLast(w)) return;
  cell.log[0] = {cell.output, 0, false};
  Send(w, item, BoundaryKind::kActivation, cell.output, 0);
}

void RecoveryModel::RunInput(int w, const Item& item) {
  const std::uint64_t params = ParametersFor(w, item);
  Cell& cell = KeptOf(At(w), item.iteration).cells[Size(item.micro_batch)];
  Check(cell.stash != 0, w, item, "has no stash");
  Check(item.regenerates || cell.done == 1, w, item, "runs out of order");
  if (!IsLast(w)) {
    Check(cell.inbox[1].of == cell.output, w, item, "has the gradient of another forward");
  }
  cell.gradient = IsLast(w) ? LossGradient(cell.output) : cell.inbox[1].value;
  cell.inbox[1] = {};
  const std::uint64_t result = InputGradient(params, cell.stash, cell.gradient);
  Check(
      job_.rounding ||
          result ==
              expected_->gradients[Size(item.iteration)][Size(StageOf(w))][Size(item.micro_batch)],
      w, item, "gives another gradient than the run without failures");
  const std::uint64_t of = cell.stash;
  if (!IsFirst(w)) cell.log[1] = {result, of, false};
  if (item.regenerates) {
    ++num_regenerations_;
    cell.stash = 0;
  } else {
    cell.done = 2;
  }
  if (!IsFirst(w)) Send(w, item, BoundaryKind::kGradient, result, of);
  // F of this iteration ran on every stage, so every member of every stage holds the last one's
  // sum.
  if (job_.staggered && !item.regenerates) Close(w, item.iteration);
}

void RecoveryModel::RunWeight(int w, const Item& item) {
  Iteration& kept = KeptOf(At(w), item.iteration);
  Cell& cell = kept.cells[Size(item.micro_batch)];
  Check(!item.regenerates && cell.done == 2, w, item, "runs out of order");
  Check((kept.summed & Bit(item.micro_batch)) == 0, w, item, "is summed twice");
  kept.sum += WeightGradient(cell.stash, cell.gradient, kStagePart);
  kept.tied_sum += WeightGradient(cell.stash, cell.gradient, kTiedPart);
  kept.summed |= Bit(item.micro_batch);
  cell.stash = 0;
  cell.done = 3;
}

void RecoveryModel::Reduce(int w, const Item& item) {
  Worker& worker = At(w);
  Iteration& kept = KeptOf(worker, item.iteration);
  const int part = worker.part;
  Round& round = RoundOf(w, item.iteration, part);
  if (worker.obtained) {
    worker.obtained = false;
    ++worker.part;
    Arrive(w);
    return;
  }
  const bool handed = item.hand_over[Size(part)] >= 0;
  std::uint64_t value = round.sum;
  if (!handed) {
    const int count = job_.data * job_.micro_batches;
    const std::uint32_t own = Bit(count) - 1;
    Check(round.summed == (part == kTiedPart ? own | own << kMaxMicroBatches : own), w, item,
          "does not sum every micro-batch once");
    if (job_.rounding) value = HashKeys({8, value, Key(worker.running)});
  }
  Check(!kept.holds[Size(part)] || kept.reduced[Size(part)] == value, w, item,
        "gives a second result");
  kept.holds[Size(part)] = true;
  kept.reduced[Size(part)] = value;
  round.obtained |= Bit(w);
  worker.obtained = true;
  const std::uint32_t group = GroupOf(w, part);
  if (!rules_.log_dropped_when_receiver_reduced || (round.obtained & group) != group) return;
  for (int sender = 0; sender < num_workers(); ++sender) {
    const int step = StageOf(w) - StageOf(sender);
    if (std::abs(step) != 1) continue;
    for (Cell& cell : KeptOf(At(sender), item.iteration).cells) cell.log[step == 1 ? 0 : 1] = {};
  }
}

void RecoveryModel::MakeStep(int w, const Item& item) {
  Worker& worker = At(w);
  Iteration& kept = KeptOf(worker, item.iteration);
  Check(worker.version == item.iteration, w, item, "steps at another version");
  Check(kept.holds[kStagePart] && (kept.holds[kTiedPart] || !InTiedUnit(w)), w, item,
        "steps without its gradient");
  kept.has_undo = job_.staggered && !rules_.undo_dropped_at_step;
  kept.undo = kept.has_undo ? worker.params : 0;
  worker.params = StepOf(worker.params, kept.reduced);
  ++worker.version;
  Check(job_.rounding || worker.params == expected_->params[Size(worker.version)][Size(StageOf(w))],
        w, item, "gives other parameters than the run without failures");
  for (int peer = StageOf(w); peer < num_workers(); peer += job_.pipeline) {
    const Worker& other = At(peer);
    Check(!other.alive || other.version != worker.version || other.params == worker.params, w, item,
          "gives other parameters than a peer's");
  }
  kept.sum = kept.tied_sum = 0;
  kept.summed = 0;
  kept.has_norm = false;
  for (Cell& cell : kept.cells) cell.done = 0;
  const bool closed = !job_.staggered || rules_.reduced_dropped_at_step;
  Close(w, closed ? item.iteration + 1 : item.iteration);
}

void RecoveryModel::Close(int w, int first_kept) {
  Worker& worker = At(w);
  for (; worker.first_kept < first_kept; ++worker.first_kept) {
    KeptOf(worker, worker.first_kept) = {};
  }
}

void RecoveryModel::Advance(int w) {
  Worker& worker = At(w);
  ++worker.head;
  worker.part = 0;
  worker.obtained = false;
  Arrive(w);
}

void RecoveryModel::Arrive(int w) {
  Worker& worker = At(w);
  const Item* item = Head(worker);
  if (item == nullptr) return;
  if (item->action.kind == ActionKind::kValidate) {
    norm_entries_[Size(item->iteration)] |= Bit(StageOf(w));
  }
  if (item->action.kind != ActionKind::kReduceGrad) return;
  while (worker.part <= kTiedPart && !item->parts[Size(worker.part)]) ++worker.part;
  if (worker.part > kTiedPart) return Advance(w);
  const Iteration& kept = KeptOf(worker, item->iteration);
  Round& round = RoundOf(w, item->iteration, worker.part);
  round.joined |= Bit(w);
  const int from = item->hand_over[Size(worker.part)];
  if (from == w) {
    Check(kept.holds[Size(worker.part)], w, *item, "hands over what it does not hold");
    round.sum = kept.reduced[Size(worker.part)];
  }
  if (from >= 0) return;
  const bool upper = worker.part == kTiedPart && IsLast(w);
  const std::uint32_t summed = upper ? kept.summed << kMaxMicroBatches : kept.summed;
  Check((round.summed & summed) == 0, w, *item, "sums a micro-batch twice");
  round.summed |= summed;
  round.sum += worker.part == kTiedPart ? kept.tied_sum : kept.sum;
}

// --- messages --------------------------------------------------------------------------------

void RecoveryModel::Send(int w, const Item& item, BoundaryKind kind, std::uint64_t value,
                         std::uint64_t of) {
  const int receiver = item.receivers[Size(kind)];
  if (receiver < 0) return;
  sent_.push_back({.from = w,
                   .to = receiver,
                   .generation = Generation(At(w).running),
                   .iteration = item.iteration,
                   .kind = kind,
                   .micro_batch = item.micro_batch,
                   .value = value,
                   .of = of});
}

std::vector<RecoveryModel::Message> RecoveryModel::TakeSent() { return std::exchange(sent_, {}); }

void RecoveryModel::Deliver(const Message& message) {
  Worker& worker = At(message.to);
  if (!worker.alive || message.generation.value() < worker.promised) return;
  if (message.generation.value() == worker.running) return Accept(message.to, message);
  if (!rules_.early_messages_dropped) worker.early.push_back(message);
}

void RecoveryModel::Accept(int w, const Message& message) {
  Worker& worker = At(w);
  if (message.iteration < worker.first_kept) return;
  Cell& cell = KeptOf(worker, message.iteration).cells[Size(message.micro_batch)];
  Tensor& place = cell.inbox[Size(message.kind)];
  const bool consumed = cell.done > static_cast<int>(message.kind);
  if (consumed || place.value != 0) return;
  place = {message.value, message.of, false};
}

std::vector<RecoveryModel::Arrival> RecoveryModel::UnpromisedArrivals() const {
  std::vector<Arrival> arrivals;
  for (int w = 0; w < num_workers(); ++w) {
    if (!IsAlive(w)) continue;
    for (int t = At(w).first_kept; t < job_.iterations; ++t) {
      for (int b = 0; b < job_.data * job_.micro_batches; ++b) {
        for (const BoundaryKind kind : {BoundaryKind::kActivation, BoundaryKind::kGradient}) {
          const Tensor& tensor = KeptOf(At(w), t).cells[Size(b)].inbox[Size(kind)];
          if (tensor.value != 0 && !tensor.promised) arrivals.push_back({w, t, b, kind});
        }
      }
    }
  }
  return arrivals;
}

void RecoveryModel::Lose(const Arrival& arrival) {
  Iteration& kept = KeptOf(At(arrival.worker), arrival.iteration);
  kept.cells[Size(arrival.micro_batch)].inbox[Size(arrival.kind)] = {};
}

// --- generations -----------------------------------------------------------------------------

void RecoveryModel::Kill(int worker) {
  At(worker) = Worker();
  At(worker).alive = false;
}

void RecoveryModel::Prepare(int w, Generation generation) {
  Worker& worker = At(w);
  if (!worker.alive || generation.value() <= worker.promised) return;
  worker.promised = generation.value();
  const Item* item = Head(worker);
  if (rules_.in_place_all_reduce && item != nullptr &&
      item->action.kind == ActionKind::kReduceGrad && !worker.obtained) {
    KeptOf(worker, item->iteration).sum += HashKeys({9, Key(worker.promised)});
  }
  for (Iteration& kept : worker.iterations) {
    for (Cell& cell : kept.cells) {
      for (Tensor& tensor : cell.inbox) tensor.promised = tensor.value != 0;
    }
  }
}

Ledger RecoveryModel::MakeLedger(int w) const {
  const Worker& worker = At(w);
  Ledger ledger;
  ledger.generation = Generation(worker.promised);
  ledger.version = worker.version;
  for (int t = worker.first_kept; t < job_.iterations; ++t) {
    const Iteration& kept = KeptOf(worker, t);
    if (t == worker.version) ledger.holds_norm = kept.has_norm;
    if (kept.has_undo) ledger.undo.push_back(t);
    IterationLedger entry;
    entry.iteration = t;
    entry.holds_stage_part = kept.holds[kStagePart];
    entry.holds_tied_part = kept.holds[kTiedPart];
    for (int b = 0; b < job_.data * job_.micro_batches; ++b) {
      const Cell& cell = kept.cells[Size(b)];
      const MicroBatch micro_batch{PipelineId(b / job_.micro_batches), b % job_.micro_batches};
      const StageId own(StageOf(w));
      if (cell.done > 0) entry.progress[micro_batch] = static_cast<Progress>(cell.done - 1);
      for (const BoundaryKind kind : {BoundaryKind::kActivation, BoundaryKind::kGradient}) {
        const int step = kind == BoundaryKind::kActivation ? 1 : -1;
        if (cell.inbox[Size(kind)].value != 0) entry.inbox.push_back({kind, own, micro_batch});
        if (cell.log[Size(kind)].value != 0) {
          entry.log.push_back({kind, StageId(own.value() + step), micro_batch});
        }
      }
    }
    if (entry.progress.empty() && entry.inbox.empty() && entry.log.empty() &&
        !entry.holds_stage_part && !entry.holds_tied_part) {
      continue;
    }
    ledger.iterations.push_back(std::move(entry));
  }
  return ledger;
}

void RecoveryModel::Resume(int w, const recycle::Resume& resume) {
  Worker& worker = At(w);
  if (!worker.alive || resume.generation.value() != worker.promised) return;
  if (worker.running == worker.promised) return;
  if (rounds_generation_ < resume.generation.value()) {
    rounds_generation_ = resume.generation.value();
    std::fill(rounds_.begin(), rounds_.end(), Round());
    std::fill(norm_entries_.begin(), norm_entries_.end(), 0);
    members_ = 0;
    for (const WorkerSchedule& entry : resume.plan->workers) {
      members_ |= Bit(job_.Number(entry.worker));
    }
  }
  worker.running = worker.promised;
  worker.head = 0;
  worker.part = 0;
  worker.obtained = false;
  worker.queue = std::make_shared<const std::vector<Item>>(QueueOf(w, resume));
  for (const OpenIteration& open : resume.open) {
    const std::vector<StageId>& committed = open.rest->committed;
    if (std::count(committed.begin(), committed.end(), StageId(StageOf(w))) == 0) {
      KeptOf(worker, open.iteration).holds = {false, false};
    }
    for (const Resend& resend : open.resends) {
      if (job_.Number(resend.from) != w) continue;
      const int b = Numbered(resend.tensor.micro_batch);
      const Tensor& log =
          KeptOf(worker, open.iteration).cells[Size(b)].log[Size(resend.tensor.kind)];
      if (log.value == 0) Violate("a re-send of what is in no log");
      sent_.push_back({w, job_.Number(resend.to), resume.generation, open.iteration,
                       resend.tensor.kind, b, log.value, log.of});
    }
  }
  for (const Message& message : std::exchange(worker.early, {})) {
    if (message.generation.value() == worker.running) Accept(w, message);
  }
  Arrive(w);
}

std::vector<RecoveryModel::Item> RecoveryModel::QueueOf(int w,
                                                        const recycle::Resume& resume) const {
  std::vector<Item> queue;
  for (const OpenIteration& open : resume.open) {
    AppendQueue(w, *open.rest, open.iteration, open.hand_overs, queue);
  }
  for (int t = resume.next_iteration; t < job_.iterations; ++t) {
    AppendQueue(w, *resume.plan, t, {}, queue);
  }
  return queue;
}

void RecoveryModel::AppendQueue(int w, const Plan& plan, std::int32_t iteration,
                                const std::vector<HandOver>& hand_overs,
                                std::vector<Item>& queue) const {
  // Who runs F, and who I, of a micro-batch at the stages next to this one.
  std::map<std::pair<int, MicroBatch>, int> forwards;
  std::map<std::pair<int, MicroBatch>, int> inputs;
  for (const WorkerSchedule& entry : plan.workers) {
    for (const Action& action : entry.actions) {
      const std::pair key(action.stage.value(), action.micro_batch);
      const int number = job_.Number(entry.worker);
      if (action.kind == ActionKind::kForward) forwards[key] = number;
      if (action.kind == ActionKind::kBackwardInput) inputs[key] = number;
    }
  }
  const auto find = [](const auto& map, int stage, MicroBatch b) {
    const auto found = map.find(std::pair(stage, b));
    return found == map.end() ? -1 : found->second;
  };
  const int stage = StageOf(w);
  const bool committed =
      std::count(plan.committed.begin(), plan.committed.end(), StageId(stage)) > 0;
  const WorkerSchedule* own = FindWorker(plan.workers, job_.Worker(w));
  RC_CHECK(own != nullptr) << "no queue for worker " << w;
  for (const Action& action : own->actions) {
    Item item{.iteration = iteration, .action = action};
    item.regenerates = committed && HasMicroBatch(action.kind);
    item.micro_batch = HasMicroBatch(action.kind) ? Numbered(action.micro_batch) : 0;
    item.receivers = {find(forwards, stage + 1, action.micro_batch),
                      find(inputs, stage - 1, action.micro_batch)};
    if (action.kind == ActionKind::kReduceGrad && !committed) {
      item.parts = {true, InTiedUnit(w)};
    }
    for (const HandOver& hand_over : hand_overs) {
      const bool is_tied = hand_over.part == ReducedPart::kTied;
      const bool takes_part = is_tied ? InTiedUnit(w) : hand_over.stage == StageId(stage);
      if (action.kind != ActionKind::kReduceGrad || !takes_part) continue;
      item.parts[is_tied ? kTiedPart : kStagePart] = true;
      item.hand_over[is_tied ? kTiedPart : kStagePart] = job_.Number(hand_over.from);
    }
    if (rules_.no_regeneration && item.regenerates) continue;
    queue.push_back(item);
  }
}

// --- for checkers ----------------------------------------------------------------------------

void RecoveryModel::Check(bool holds, int w, const Item& item, const char* rule) {
  if (holds || !violation_.empty()) return;
  Violate(fmt::format("worker {}: {} of iteration {} {}", ToString(job_.Worker(w)),
                      ToString(item.action), item.iteration, rule));
}

void RecoveryModel::Violate(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

std::uint64_t RecoveryModel::Hash() const {
  std::uint64_t hash = members_;
  const auto add = [&hash](std::int64_t value) { hash = Mix64(hash ^ Key(value)); };
  const int count = job_.data * job_.micro_batches;
  for (const Worker& worker : workers_) {
    add(worker.alive);
    if (!worker.alive) continue;
    add(worker.version << 16 | worker.first_kept << 8 | worker.part << 4 | int{worker.obtained});
    for (int t = worker.first_kept; t < job_.iterations; ++t) {
      const Iteration& kept = KeptOf(worker, t);
      add(kept.summed << 5 | int{kept.holds[0]} << 4 | int{kept.holds[1]} << 3 |
          int{kept.has_undo} << 2 | int{kept.has_norm} << 1);
      for (int b = 0; b < count; ++b) {
        const Cell& cell = kept.cells[Size(b)];
        std::int64_t bits = cell.done << 1 | int{cell.stash != 0};
        for (std::size_t kind = 0; kind < 2; ++kind) {
          bits = bits << 3 | int{cell.inbox[kind].value != 0} << 2 |
                 int{cell.inbox[kind].promised} << 1 | int{cell.log[kind].value != 0};
        }
        add(bits);
      }
    }
    for (std::size_t i = worker.head; worker.queue != nullptr && i < worker.queue->size(); ++i) {
      const Item& item = (*worker.queue)[i];
      add(item.iteration << 24 | int(item.action.kind) << 16 | item.micro_batch << 8 |
          int{item.regenerates} << 4 | int{item.parts[0]} << 2 | int{item.parts[1]} << 1);
      add((item.receivers[0] + 1) << 24 | (item.receivers[1] + 1) << 16 |
          (item.hand_over[0] + 1) << 8 | (item.hand_over[1] + 1));
    }
  }
  for (const Round& round : rounds_) add(std::int64_t{round.joined} << 32 | round.obtained);
  for (const std::uint32_t entries : norm_entries_) add(entries);
  return hash;
}

std::string RecoveryModel::Describe() const {
  std::string text;
  for (int w = 0; w < num_workers(); ++w) {
    const Worker& worker = At(w);
    const Item* item = Head(worker);
    text += fmt::format("  {} {}version {} at {}\n", ToString(job_.Worker(w)),
                        worker.alive ? "" : "dead, ", worker.version,
                        item == nullptr
                            ? "the end"
                            : fmt::format("{} of iteration {}{}", ToString(item->action),
                                          item->iteration, item->regenerates ? " again" : ""));
  }
  return text;
}

}  // namespace recycle
