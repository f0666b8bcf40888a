#include "recycle/coordinator/open_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

// How many of F, I, W a progress stands for.
std::uint8_t NumDone(Progress last) {
  switch (last) {
    case Progress::kForward:
      return 1;
    case Progress::kInput:
      return 2;
    case Progress::kWeight:
      return 3;
  }
  return 0;
}

constexpr std::uint8_t kForwardDone = 1;
constexpr std::uint8_t kInputDone = 2;
constexpr std::uint8_t kAllDone = 3;

}  // namespace

OpenWork::OpenWork(const ResumeQuestion& question, std::int32_t iteration)
    : question_(question),
      iteration_(iteration),
      stages_(question.plan.parallel.num_stages()),
      pipelines_(question.plan.parallel.data),
      micro_batches_(question.plan.micro_batches),
      tied_(question.tied && stages_ > 1) {
  RC_CHECK(question.plan.parallel.virtual_stages == 1) << "one stage per worker";
  peers_.resize(Index(stages_));
  committed_.resize(Index(stages_));
  slots_.resize(Index(stages_) * Index(pipelines_) * Index(micro_batches_));
  for (const auto& [worker, ledger] : question.ledgers) {
    Member member{.worker = worker, .ledger = &ledger, .past = ledger.version > iteration};
    for (const IterationLedger& entry : ledger.iterations) {
      if (entry.iteration == iteration) member.iteration = &entry;
    }
    const IterationLedger* entry = member.iteration;
    member.holds_stage_part = member.past || (entry != nullptr && entry->holds_stage_part);
    member.holds_tied_part = member.past || (entry != nullptr && entry->holds_tied_part);
    peers_[Index(worker.stage.value())].push_back(static_cast<std::int32_t>(members_.size()));
    members_.push_back(member);
  }
}

Status OpenWork::Settle() {
  for (int stage = 0; stage < stages_; ++stage) {
    if (!peers_[Index(stage)].empty()) continue;
    return absl::DataLossError(fmt::format("stage {} has no live worker", stage));
  }
  for (std::int32_t m = 0; m < std::ssize(members_); ++m) RC_RETURN_IF_ERROR(Read(m));
  std::sort(inbox_.begin(), inbox_.end());
  DecideUnits();
  for (int stage = 0; stage < stages_; ++stage) {
    if (!committed_[Index(stage)]) AssignOpenStage(stage);
  }
  return CloseDemands();
}

// --- what there is ---------------------------------------------------------------------------

bool OpenWork::InRange(StageId stage, MicroBatch micro_batch) const {
  const auto within = [](int value, int limit) { return value >= 0 && value < limit; };
  return within(stage.value(), stages_) && within(micro_batch.home.value(), pipelines_) &&
         within(micro_batch.index, micro_batches_);
}

std::size_t OpenWork::SlotIndex(int stage, MicroBatch micro_batch) const {
  return (Index(stage) * Index(micro_batches_) + Index(micro_batch.index)) * Index(pipelines_) +
         Index(micro_batch.home.value());
}

// By number, then by home: in the order in which pipelines run them.
template <typename Visit>
void OpenWork::ForEachMicroBatch(Visit visit) const {
  for (int index = 0; index < micro_batches_; ++index) {
    for (int home = 0; home < pipelines_; ++home) visit(MicroBatch{PipelineId(home), index});
  }
}

Status OpenWork::Read(std::int32_t m) {
  const Member& member = members_[Index(m)];
  if (member.iteration == nullptr) return OkStatus();
  const auto check = [&](StageId stage, MicroBatch b) {
    if (InRange(stage, b)) return OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("the ledger of worker {} names micro-batch {} at stage {}; the job has {} "
                    "stages and micro-batches 0.0 to {}.{}",
                    ToString(member.worker), ToString(b), stage.value(), stages_, pipelines_ - 1,
                    micro_batches_ - 1));
  };
  begun_ = begun_ || member.holds_stage_part || member.holds_tied_part;
  for (const auto& [micro_batch, last] : member.iteration->progress) {
    RC_RETURN_IF_ERROR(check(member.worker.stage, micro_batch));
    RC_RETURN_IF_ERROR(NoteProgress(m, micro_batch, last));
  }
  for (const BoundaryTensor& tensor : member.iteration->inbox) {
    RC_RETURN_IF_ERROR(check(tensor.stage, tensor.micro_batch));
    inbox_.push_back(InboxKey(tensor.kind, SlotIndex(tensor.stage.value(), tensor.micro_batch), m));
  }
  for (const BoundaryTensor& tensor : member.iteration->log) {
    RC_RETURN_IF_ERROR(check(tensor.stage, tensor.micro_batch));
    std::int32_t& sender =
        SlotAt(tensor.stage.value(), tensor.micro_batch).logged[Index(int(tensor.kind))];
    if (sender == kNobody) sender = m;
  }
  return OkStatus();
}

Status OpenWork::NoteProgress(std::int32_t m, MicroBatch micro_batch, Progress last) {
  const WorkerId worker = members_[Index(m)].worker;
  Slot& slot = SlotAt(worker.stage.value(), micro_batch);
  if (slot.owner != kNobody) {
    return absl::FailedPreconditionError(fmt::format(
        "workers {} and {} have both begun micro-batch {} of iteration {}: it has one owner",
        ToString(members_[Index(slot.owner)].worker), ToString(worker), ToString(micro_batch),
        iteration_ + 1));
  }
  slot.owner = m;
  slot.done = NumDone(last);
  begun_ = true;
  return OkStatus();
}

std::uint64_t OpenWork::InboxKey(BoundaryKind kind, std::size_t slot, std::int32_t member) const {
  const std::size_t tensor = 2 * slot + (kind == BoundaryKind::kActivation ? 0 : 1);
  return tensor * members_.size() + Index(member);
}

bool OpenWork::HasInput(BoundaryKind kind, int stage, MicroBatch micro_batch,
                        std::int32_t member) const {
  return std::binary_search(inbox_.begin(), inbox_.end(),
                            InboxKey(kind, SlotIndex(stage, micro_batch), member));
}

bool OpenWork::AnyHasInput(BoundaryKind kind, int stage, MicroBatch micro_batch) const {
  const std::uint64_t first = InboxKey(kind, SlotIndex(stage, micro_batch), 0);
  const auto found = std::lower_bound(inbox_.begin(), inbox_.end(), first);
  return found != inbox_.end() && *found < first + members_.size();
}

// --- units -----------------------------------------------------------------------------------

bool OpenWork::UnitHolds(const std::vector<int>& stages) const {
  bool tied_part = stages.size() == 1;
  for (const int stage : stages) {
    bool stage_part = false;
    for (const std::int32_t m : peers_[Index(stage)]) {
      stage_part = stage_part || members_[Index(m)].holds_stage_part;
      tied_part = tied_part || members_[Index(m)].holds_tied_part;
    }
    if (!stage_part) return false;
  }
  return tied_part;
}

void OpenWork::DecideUnits() {
  for (int stage = 0; stage < stages_; ++stage) {
    const bool in_tied_unit = tied_ && (stage == 0 || stage + 1 == stages_);
    const std::vector<int> unit =
        in_tied_unit ? std::vector<int>{0, stages_ - 1} : std::vector<int>{stage};
    committed_[Index(stage)] = UnitHolds(unit);
  }
}

// --- open stages -----------------------------------------------------------------------------

Ticks OpenWork::Remaining(const Member& member, int stage, int done) const {
  const StageCosts& costs = question_.plan.costs.stages[Index(stage)];
  Ticks ticks = 0;
  if (done < kForwardDone) ticks += costs.forward;
  if (done < kInputDone) ticks += costs.backward_input;
  if (done < kAllDone) ticks += costs.backward_weight;
  for (const SlowWorker& slow : question_.plan.slow) {
    if (slow.worker != member.worker) continue;
    ticks = static_cast<Ticks>(std::llround(static_cast<double>(ticks) * slow.factor));
  }
  return std::max<Ticks>(ticks, 1);
}

// What has begun stays where it is. The rest goes to whoever has least to do; to have its input
// already counts as one micro-batch less.
void OpenWork::AssignOpenStage(int stage) {
  const std::vector<std::int32_t>& peers = peers_[Index(stage)];
  std::vector<Ticks> whole;  // by peer: all of one micro-batch
  whole.reserve(peers.size());
  for (const std::int32_t m : peers) whole.push_back(Remaining(members_[Index(m)], stage, 0));
  ForEachMicroBatch([&](MicroBatch b) {
    const Slot& slot = SlotAt(stage, b);
    if (slot.owner == kNobody || slot.done == kAllDone) return;
    Member& owner = members_[Index(slot.owner)];
    owner.load += Remaining(owner, stage, slot.done);
  });
  ForEachMicroBatch([&](MicroBatch b) {
    Slot& slot = SlotAt(stage, b);
    if (slot.owner != kNobody) return;
    const bool any_here = AnyHasInput(BoundaryKind::kActivation, stage, b);
    std::size_t best = 0;
    std::tuple<Ticks, bool> least;
    for (std::size_t p = 0; p < peers.size(); ++p) {
      const Member& member = members_[Index(peers[p])];
      const bool here = any_here && HasInput(BoundaryKind::kActivation, stage, b, peers[p]);
      const std::tuple<Ticks, bool> cost = {member.load + (here ? 0 : whole[p]),
                                            member.worker.pipeline != b.home};
      if (p == 0 || cost < least) {
        best = p;
        least = cost;
      }
    }
    slot.owner = peers[best];
    members_[Index(slot.owner)].load += whole[best];
  });
}

// --- boundary tensors ------------------------------------------------------------------------

bool OpenWork::RunsForward(int stage, MicroBatch micro_batch) const {
  const Slot& slot = SlotAt(stage, micro_batch);
  return committed_[Index(stage)] ? slot.regenerator != kNobody : slot.done < kForwardDone;
}

bool OpenWork::RunsInput(int stage, MicroBatch micro_batch) const {
  const Slot& slot = SlotAt(stage, micro_batch);
  return committed_[Index(stage)] ? slot.regenerates_input : slot.done < kInputDone;
}

Status OpenWork::CloseDemands() {
  Status status;
  for (int stage = 0; stage < stages_; ++stage) {
    if (committed_[Index(stage)]) continue;
    ForEachMicroBatch([&](MicroBatch b) {
      const Slot& slot = SlotAt(stage, b);
      if (status.ok() && slot.done < kForwardDone) status = NeedActivation(stage, b, slot.owner);
      if (status.ok() && slot.done < kInputDone) status = NeedGradient(stage, b, slot.owner);
    });
  }
  return status;
}

Status OpenWork::NeedActivation(int stage, MicroBatch b, std::int32_t consumer) {
  const bool there = stage == 0 || HasInput(BoundaryKind::kActivation, stage, b, consumer) ||
                     SlotAt(stage, b).logged[0] != kNobody || RunsForward(stage - 1, b);
  return there ? OkStatus() : Regenerate(stage - 1, b, /*input=*/false);
}

Status OpenWork::NeedGradient(int stage, MicroBatch b, std::int32_t consumer) {
  const bool there = stage + 1 == stages_ ||
                     HasInput(BoundaryKind::kGradient, stage, b, consumer) ||
                     SlotAt(stage, b).logged[1] != kNobody || RunsInput(stage + 1, b);
  return there ? OkStatus() : Regenerate(stage + 1, b, /*input=*/true);
}

Status OpenWork::Regenerate(int stage, MicroBatch b, bool input) {
  Slot& slot = SlotAt(stage, b);
  if (!committed_[Index(stage)]) {
    return absl::FailedPreconditionError(fmt::format(
        "worker {} has run micro-batch {} of iteration {} at stage {}, which is not reduced yet, "
        "but keeps no log of what it sent",
        ToString(members_[Index(slot.owner)].worker), ToString(b), iteration_ + 1, stage));
  }
  if (slot.regenerator == kNobody) {
    RC_ASSIGN_OR_RETURN(slot.regenerator, ChooseRegenerator(stage, b));
    ++members_[Index(slot.regenerator)].regenerations;
    ++regenerated_actions_;
    RC_RETURN_IF_ERROR(NeedActivation(stage, b, slot.regenerator));
  }
  if (!input || slot.regenerates_input) return OkStatus();
  slot.regenerates_input = true;
  ++regenerated_actions_;
  return NeedGradient(stage, b, slot.regenerator);
}

// Whoever still has the parameters of the iteration, has regenerated least, and has the input.
StatusOr<std::int32_t> OpenWork::ChooseRegenerator(int stage, MicroBatch b) const {
  std::int32_t best = kNobody;
  std::tuple<int, bool> least;
  for (const std::int32_t m : peers_[Index(stage)]) {
    const Member& member = members_[Index(m)];
    const std::vector<std::int32_t>& undo = member.ledger->undo;
    const bool has_bits = member.ledger->version == iteration_ ||
                          std::count(undo.begin(), undo.end(), iteration_) > 0;
    if (!has_bits) continue;
    const std::tuple<int, bool> cost = {member.regenerations,
                                        !HasInput(BoundaryKind::kActivation, stage, b, m)};
    if (best != kNobody && least <= cost) continue;
    best = m;
    least = cost;
  }
  if (best != kNobody) return best;
  return absl::DataLossError(
      fmt::format("no live worker of stage {} has its parameters as they were in iteration {}, and "
                  "micro-batch {} needs them",
                  stage, iteration_ + 1, ToString(b)));
}

std::vector<Resend> OpenWork::FindResends() const {
  std::vector<Resend> resends;
  const auto add = [&](BoundaryKind kind, int stage, MicroBatch b, std::int32_t consumer) {
    if (HasInput(kind, stage, b, consumer)) return;
    const std::int32_t sender = SlotAt(stage, b).logged[Index(int(kind))];
    RC_CHECK(sender != kNobody) << "micro-batch " << b << " at stage " << stage;
    resends.push_back({.tensor = {kind, StageId(stage), b},
                       .from = members_[Index(sender)].worker,
                       .to = members_[Index(consumer)].worker});
  };
  for (int stage = 0; stage < stages_; ++stage) {
    ForEachMicroBatch([&](MicroBatch b) {
      const Slot& slot = SlotAt(stage, b);
      const std::int32_t runner = committed_[Index(stage)] ? slot.regenerator : slot.owner;
      if (stage > 0 && RunsForward(stage, b) && !RunsForward(stage - 1, b)) {
        add(BoundaryKind::kActivation, stage, b, runner);
      }
      if (stage + 1 < stages_ && RunsInput(stage, b) && !RunsInput(stage + 1, b)) {
        add(BoundaryKind::kGradient, stage, b, runner);
      }
    });
  }
  return resends;
}

// --- hand-overs ------------------------------------------------------------------------------

// Whoever is past the iteration keeps its gradient for as long as the bits before its step: then
// every member that was there has it. A joiner may have come later.
OpenWork::Part OpenWork::FindPart(ReducedPart part, const std::vector<int>& stages) const {
  const auto holds =
      part == ReducedPart::kStage ? &Member::holds_stage_part : &Member::holds_tied_part;
  Part found{.part = part, .keeper = nullptr, .lacking = {}};
  for (const int stage : stages) {
    for (const std::int32_t m : peers_[Index(stage)]) {
      const Member& member = members_[Index(m)];
      const std::vector<std::int32_t>& undo = member.ledger->undo;
      const bool keeps = !member.past || std::count(undo.begin(), undo.end(), iteration_) > 0;
      if (!(member.*holds)) {
        found.lacking.push_back(member.worker);
      } else if (keeps && found.keeper == nullptr) {
        found.keeper = &member;
      }
    }
  }
  return found;
}

std::vector<OpenWork::Part> OpenWork::CommittedParts() const {
  std::vector<Part> parts;
  for (int stage = 0; stage < stages_; ++stage) {
    if (committed_[Index(stage)]) parts.push_back(FindPart(ReducedPart::kStage, {stage}));
  }
  if (tied_ && committed_[0]) parts.push_back(FindPart(ReducedPart::kTied, {0, stages_ - 1}));
  return parts;
}

std::vector<WorkerId> OpenWork::Stranded() const {
  std::vector<WorkerId> stranded;
  for (const Part& part : CommittedParts()) {
    if (part.keeper != nullptr) continue;
    stranded.insert(stranded.end(), part.lacking.begin(), part.lacking.end());
  }
  return stranded;
}

std::vector<HandOver> OpenWork::FindHandOvers() const {
  std::vector<HandOver> hand_overs;
  for (const Part& part : CommittedParts()) {
    if (part.lacking.empty()) continue;
    RC_CHECK(part.keeper != nullptr) << "a gradient that nobody keeps";
    hand_overs.push_back({part.part, part.keeper->worker.stage, part.keeper->worker});
  }
  return hand_overs;
}

// --- the plan of the rest --------------------------------------------------------------------

// What is through first, then what is deferred, then what is stashed: memory then never stands
// higher than it has.
void OpenWork::ListDone(std::int32_t m, std::vector<Action>& done) const {
  const StageId stage = members_[Index(m)].worker.stage;
  const ActionKind kinds[] = {ActionKind::kForward, ActionKind::kBackwardInput,
                              ActionKind::kBackwardWeight};
  for (int reached = kAllDone; reached >= kForwardDone; --reached) {
    ForEachMicroBatch([&](MicroBatch b) {
      const Slot& slot = SlotAt(stage.value(), b);
      if (slot.owner != m || slot.done != reached) return;
      for (int kind = 0; kind < reached; ++kind) done.push_back({kinds[kind], stage, b});
    });
  }
}

void OpenWork::ListActions(Schedule& workers) const {
  for (int stage = 0; stage < stages_; ++stage) {
    ForEachMicroBatch([&](MicroBatch b) {
      const Slot& slot = SlotAt(stage, b);
      const std::int32_t runner = committed_[Index(stage)] ? slot.regenerator : slot.owner;
      if (runner == kNobody) return;
      std::vector<Action>& actions = workers[Index(runner)].actions;
      const auto add = [&](ActionKind kind) { actions.push_back({kind, StageId(stage), b}); };
      if (RunsForward(stage, b)) add(ActionKind::kForward);
      const bool whole = !question_.plan.options.decoupled && !committed_[Index(stage)];
      if (RunsInput(stage, b)) add(whole ? ActionKind::kBackward : ActionKind::kBackwardInput);
      if (committed_[Index(stage)] || slot.done == kAllDone) return;
      if (!whole || slot.done == kInputDone) add(ActionKind::kBackwardWeight);
    });
  }
}

void OpenWork::AddStepsOfCommitted(const std::vector<HandOver>& hand_overs, Plan& rest) const {
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const StageId stage = members_[m].worker.stage;
    if (!committed_[Index(stage.value())]) continue;
    const bool in_tied_unit = stage.value() == 0 || stage.value() + 1 == stages_;
    const bool takes_part =
        std::any_of(hand_overs.begin(), hand_overs.end(), [&](const HandOver& hand_over) {
          return hand_over.part == ReducedPart::kTied ? in_tied_unit : hand_over.stage == stage;
        });
    std::vector<Action>& actions = rest.workers[m].actions;
    if (takes_part) actions.push_back({ActionKind::kReduceGrad, stage, {}});
    if (!rest.options.staggered) actions.push_back({ActionKind::kValidate, stage, {}});
    if (!members_[m].past) actions.push_back({ActionKind::kStep, stage, {}});
  }
}

StatusOr<OpenIteration> OpenWork::Describe(const OrderRemainderFunction& order) const {
  const Plan& plan = question_.plan;
  OpenIteration open{.iteration = iteration_,
                     .rest = nullptr,
                     .resends = FindResends(),
                     .hand_overs = FindHandOvers()};
  Plan rest;
  rest.parallel = plan.parallel;
  rest.micro_batches = plan.micro_batches;
  rest.failed = plan.failed;
  rest.options = {.decoupled = true, .staggered = plan.options.staggered};
  rest.costs = plan.costs;
  rest.slow = plan.slow;
  for (std::int32_t m = 0; m < std::ssize(members_); ++m) {
    const WorkerId worker = members_[Index(m)].worker;
    rest.initial.push_back({worker, iteration_ + 1, {}});
    ListDone(m, rest.initial.back().done);
    rest.workers.push_back({worker, {}});
  }
  for (int stage = 0; stage < stages_; ++stage) {
    if (committed_[Index(stage)]) rest.committed.emplace_back(stage);
  }
  ListActions(rest.workers);
  RC_ASSIGN_OR_RETURN(rest.workers, order(rest));
  AddStepActions(rest);
  AddStepsOfCommitted(open.hand_overs, rest);
  rest.method = "remainder";
  open.rest = std::make_shared<const Plan>(std::move(rest));
  return open;
}

}  // namespace recycle
