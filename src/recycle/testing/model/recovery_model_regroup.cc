// RecoveryModel from one generation to the next: death, return, promise, ledger, Resume.
#include <algorithm>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/base/prng.h"
#include "recycle/testing/model/recovery_model.h"

namespace recycle {

void RecoveryModel::Kill(int worker) {
  At(worker) = Worker();
  At(worker).alive = false;
}

void RecoveryModel::Restart(int worker) {
  At(worker) = Worker();
  At(worker).params = expected_->params[0][Index(StageOf(worker))];
}

RecoveryModel::State RecoveryModel::StateOf(int w) const {
  const Worker& worker = At(w);
  const int last = worker.version - 1;
  if (last >= 0 && KeptOf(worker, last).has_undo) return {last, KeptOf(worker, last).undo};
  return {worker.version, worker.params};
}

void RecoveryModel::TakeOver(int w, const State& state) {
  Worker& worker = At(w);
  worker.version = worker.first_kept = worker.joined_at = state.version;
  worker.params = state.params;
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
    const Quantum learnt{.stage = StageId(StageOf(w)), .iteration = t, .exponent = kept.quantum};
    if (kept.quantum > 0 && t >= worker.version) ledger.quanta.push_back(learnt);
    if (worker.outgrown && t == worker.version) {
      ledger.outgrown = learnt;
      ++ledger.outgrown->exponent;
    }
    if (kept.has_undo) ledger.undo.push_back(t);
    IterationLedger entry;
    entry.iteration = t;
    entry.holds_stage_part = kept.holds[kStagePart];
    entry.holds_tied_part = kept.holds[kTiedPart];
    for (int b = 0; b < job_.data * job_.micro_batches; ++b) {
      const Cell& cell = kept.cells[Index(b)];
      const MicroBatch micro_batch{PipelineId(b / job_.micro_batches), b % job_.micro_batches};
      const StageId own(StageOf(w));
      if (cell.done > 0) entry.progress[micro_batch] = static_cast<Progress>(cell.done - 1);
      for (const BoundaryKind kind : {BoundaryKind::kActivation, BoundaryKind::kGradient}) {
        const int step = kind == BoundaryKind::kActivation ? 1 : -1;
        if (cell.inbox[IndexOf(kind)].value != 0) entry.inbox.push_back({kind, own, micro_batch});
        if (cell.log[IndexOf(kind)].value != 0) {
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

void RecoveryModel::Learn(int w, const Quantum& quantum) {
  Worker& worker = At(w);
  if (quantum.stage.value() != StageOf(w) || quantum.iteration < worker.version) return;
  Iteration& kept = KeptOf(worker, quantum.iteration);
  if (kept.quantum >= quantum.exponent) return;
  kept.quantum = quantum.exponent;
  if (quantum.iteration != worker.version) return;
  if (rules_.outgrown_sums_kept && !worker.outgrown) return;
  worker.outgrown = false;
  for (int t = worker.version; t < job_.iterations; ++t) {
    const int learnt = KeptOf(worker, t).quantum;
    KeptOf(worker, t) = {};
    KeptOf(worker, t).quantum = learnt;
  }
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
  for (const Quantum& quantum : resume.quanta) Learn(w, quantum);
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
          KeptOf(worker, open.iteration).cells[Index(b)].log[IndexOf(resend.tensor.kind)];
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

}  // namespace recycle
