#include "recycle/testing/model/recovery_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {

RecoveryModel::RecoveryModel(const ModelJob& job, const BrokenRules& rules)
    : job_(job),
      rules_(rules),
      expected_(std::make_shared<const UnharmedRun>(job)),
      workers_(Index(job.data * job.pipeline)),
      rounds_(Index(job.iterations * (job.pipeline + 1))),
      norm_entries_(Index(job.iterations)) {
  RC_CHECK(job.data * job.micro_batches <= kMaxMicroBatches && job.iterations <= kMaxIterations);
  for (int w = 0; w < num_workers(); ++w) At(w).params = expected_->params[0][Index(StageOf(w))];
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
  const Cell& cell = KeptOf(At(w), item.iteration).cells[Index(item.micro_batch)];
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
  if (!violation_.empty()) return false;  // from here on nothing means anything
  if (worker.outgrown) return false;
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
      if (!InRounds(w)) return false;
      const Round& round = RoundOf(w, item->iteration, worker.part);
      const std::uint32_t group = GroupOf(w, worker.part);
      if (!worker.obtained) return (round.joined & group) == group;
      return rules_.no_commit_round || (round.obtained & group) == group;
    }
    case ActionKind::kValidate:
      return job_.staggered || (InRounds(w) && NormIsReady(item->iteration));
    case ActionKind::kStep:
      return true;
  }
  return false;
}

bool RecoveryModel::HasOutgrown() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.alive && worker.outgrown; });
}

bool RecoveryModel::NormIsReady(std::int32_t iteration) const {
  return norm_entries_[Index(iteration)] == Bit(job_.pipeline) - 1;
}

RecoveryModel::Round& RecoveryModel::RoundOf(int worker, std::int32_t iteration, int part) {
  const int place = part == kTiedPart ? job_.pipeline : StageOf(worker);
  return rounds_[Index(iteration * (job_.pipeline + 1) + place)];
}

const RecoveryModel::Round& RecoveryModel::RoundOf(int worker, std::int32_t iteration,
                                                   int part) const {
  const int place = part == kTiedPart ? job_.pipeline : StageOf(worker);
  return rounds_[Index(iteration * (job_.pipeline + 1) + place)];
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
      At(w).outgrown = std::exchange(At(w).next_does_not_fit, false);
      if (At(w).outgrown) return;
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

std::optional<Action> RecoveryModel::Next(int w) const {
  const Item* item = Head(At(w));
  return item == nullptr ? std::nullopt : std::optional(item->action);
}

std::optional<Action> RecoveryModel::NextOwnAction(int w) const {
  const Item* item = Head(At(w));
  if (item == nullptr || item->regenerates || !HasMicroBatch(item->action.kind))
    return std::nullopt;
  return item->action;
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
  Cell& cell = KeptOf(At(w), item.iteration).cells[Index(item.micro_batch)];
  Check(cell.done == 0, w, item, "runs twice");
  cell.stash =
      IsFirst(w) ? Tokens(job_.seed, item.iteration, item.micro_batch) : cell.inbox[0].value;
  cell.inbox[0] = {};
  cell.output = ForwardOf(params, cell.stash);
  Check(
      job_.rounding ||
          cell.output ==
              expected_->outputs[Index(item.iteration)][Index(StageOf(w))][Index(item.micro_batch)],
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
  Cell& cell = KeptOf(At(w), item.iteration).cells[Index(item.micro_batch)];
  Check(cell.stash != 0, w, item, "has no stash");
  Check(item.regenerates || cell.done == 1, w, item, "runs out of order");
  if (!IsLast(w)) {
    Check(cell.inbox[1].of == cell.output, w, item, "has the gradient of another forward");
  }
  cell.gradient = IsLast(w) ? LossGradient(cell.output) : cell.inbox[1].value;
  cell.inbox[1] = {};
  const std::uint64_t result = InputGradient(params, cell.stash, cell.gradient);
  Check(job_.rounding || result == expected_->gradients[Index(item.iteration)][Index(StageOf(w))]
                                                       [Index(item.micro_batch)],
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
  Cell& cell = kept.cells[Index(item.micro_batch)];
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
  const bool handed = item.hand_over[Index(part)] >= 0;
  std::uint64_t value = round.sum;
  if (!handed) {
    const int count = job_.data * job_.micro_batches;
    const std::uint32_t own = Bit(count) - 1;
    Check(round.summed == (part == kTiedPart ? own | own << kMaxMicroBatches : own), w, item,
          "does not sum every micro-batch once");
    if (job_.rounding) value = HashKeys({8, value, Key(worker.running)});
  }
  Check(!kept.holds[Index(part)] || kept.reduced[Index(part)] == value, w, item,
        "gives a second result");
  kept.holds[Index(part)] = true;
  kept.reduced[Index(part)] = value;
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
  if (!violation_.empty()) return;
  kept.has_undo = job_.staggered && !rules_.undo_dropped_at_step;
  kept.undo = kept.has_undo ? worker.params : 0;
  worker.params = StepOf(worker.params, kept.reduced);
  ++worker.version;
  Check(
      job_.rounding || worker.params == expected_->params[Index(worker.version)][Index(StageOf(w))],
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
    const int t = worker.first_kept;
    for (int other = 0; other < num_workers(); ++other) {
      const Iteration& theirs = KeptOf(At(other), t);
      const bool holds = At(other).version > t || (theirs.holds[kStagePart] &&
                                                   (theirs.holds[kTiedPart] || !InTiedUnit(other)));
      // Who joined at that version came after F of the next one, and is handed what it lacks.
      const bool is_member = At(other).alive && At(other).promised > 0 &&
                             At(other).joined_at != t && (members_ & Bit(other)) != 0;
      if (InRounds(w) && is_member && !holds) {
        Violate(fmt::format("worker {} closes iteration {}, but {} lacks its gradient",
                            ToString(job_.Worker(w)), t, ToString(job_.Worker(other))));
      }
    }
    KeptOf(worker, t) = {};
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
  if (item == nullptr || !InRounds(w)) return;
  if (item->action.kind == ActionKind::kValidate) {
    norm_entries_[Index(item->iteration)] |= Bit(StageOf(w));
  }
  if (item->action.kind != ActionKind::kReduceGrad) return;
  while (worker.part <= kTiedPart && !item->parts[Index(worker.part)]) ++worker.part;
  if (worker.part > kTiedPart) return Advance(w);
  const Iteration& kept = KeptOf(worker, item->iteration);
  Round& round = RoundOf(w, item->iteration, worker.part);
  round.joined |= Bit(w);
  const int from = item->hand_over[Index(worker.part)];
  if (from == w) {
    Check(kept.holds[Index(worker.part)], w, *item, "hands over what it does not hold");
    round.sum = kept.reduced[Index(worker.part)];
  }
  if (from >= 0) return;
  const bool upper = worker.part == kTiedPart && IsLast(w);
  const std::uint32_t summed = upper ? kept.summed << kMaxMicroBatches : kept.summed;
  Check((round.summed & summed) == 0, w, *item, "sums a micro-batch twice");
  if (round.summed == 0) round.quantum = kept.quantum;
  Check(summed == 0 || round.quantum == kept.quantum, w, *item, "sums in another quantum");
  round.summed |= summed;
  round.sum += worker.part == kTiedPart ? kept.tied_sum : kept.sum;
}

// --- messages --------------------------------------------------------------------------------

void RecoveryModel::Send(int w, const Item& item, BoundaryKind kind, std::uint64_t value,
                         std::uint64_t of) {
  const int receiver = item.receivers[IndexOf(kind)];
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
  Cell& cell = KeptOf(worker, message.iteration).cells[Index(message.micro_batch)];
  Tensor& place = cell.inbox[IndexOf(message.kind)];
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
          const Tensor& tensor = KeptOf(At(w), t).cells[Index(b)].inbox[IndexOf(kind)];
          if (tensor.value != 0 && !tensor.promised) arrivals.push_back({w, t, b, kind});
        }
      }
    }
  }
  return arrivals;
}

void RecoveryModel::Lose(const Arrival& arrival) {
  Iteration& kept = KeptOf(At(arrival.worker), arrival.iteration);
  kept.cells[Index(arrival.micro_batch)].inbox[IndexOf(arrival.kind)] = {};
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
    add(worker.version << 16 | worker.first_kept << 8 | worker.part << 4 |
        int{worker.next_does_not_fit} << 2 | int{worker.outgrown} << 1 | int{worker.obtained});
    for (int t = worker.first_kept; t < job_.iterations; ++t) {
      const Iteration& kept = KeptOf(worker, t);
      add(kept.summed << 5 | int{kept.holds[0]} << 4 | int{kept.holds[1]} << 3 |
          int{kept.has_undo} << 2 | int{kept.has_norm} << 1);
      add(kept.quantum);
      for (int b = 0; b < count; ++b) {
        const Cell& cell = kept.cells[Index(b)];
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
