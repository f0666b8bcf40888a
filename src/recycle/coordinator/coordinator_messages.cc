// What live and expected workers say, and what a coordinator takes over from the one before it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/coordinator/coordinator.h"

namespace recycle {
namespace {

// A job that has gone without this many steps in a row has diverged.
constexpr std::int32_t kSkippedStepsAllowed = 10;

// A place whose state was wrong more often than this is not filled again: its machine is broken.
constexpr int kCorruptionsForgiven = 2;

}  // namespace

void Coordinator::Receive(WorkerId from, const Hello& message) {
  Place& place = roster_.At(from);
  if (place.presence == Place::Presence::kLive && place.pid != message.pid) {
    Send(from, Fence{fmt::format("place {} is held by process {}", ToString(from), place.pid)});
    return;
  }
  const bool was_expected = place.presence == Place::Presence::kExpected;
  if (was_expected && succeeds_ && !IsStillMember(from, message)) return;
  if (phase_ == Phase::kJoining) {
    // Newer than the record if the store was out of order and training went on without it.
    generation_ = std::max(generation_, message.generation);
  } else if (!was_expected) {
    changes_.Reconnect(from);  // what was on the old stream may be lost
  }
  const bool is_new = was_expected && !succeeds_;
  place.version = std::max(place.version, message.version);
  snapshots_.NoteAll(from, message.snapshots, now_);
  place.presence = Place::Presence::kLive;
  place.pid = message.pid;
  place.stream_open = true;
  place.closed_at.reset();
  if (!was_expected) detection_.OnReconnected(from, now_);
  if (is_new) effects_.emplace_back(AnnounceJoined{from, message.pid});
  if (const auto reports = early_reports_.extract(from); !reports.empty()) {
    for (const auto& [reporter, report] : reports.mapped()) {
      if (roster_.IsLive(reporter)) detection_.OnLinkBroken(reporter, report, now_);
    }
  }
}

void Coordinator::Receive(WorkerId from, const Heartbeat& message) {
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.version);
  place.peak_bytes = std::max(place.peak_bytes, message.peak_bytes);
  detection_.OnHeartbeat(from, message, now_);
  if (roster_.IsLive(from)) standstill_.OnHeartbeat(from, message.actions_done, now_);
  if (phase_ != Phase::kTraining || !roster_.IsLive(from)) return;
  if (const auto change = stragglers_.Judge(from)) {
    effects_.emplace_back(AnnounceStraggler{change->worker, change->score, change->is_slow});
    changes_.Rebalance(change->worker, change->score, change->is_slow);
  }
}

void Coordinator::Receive(WorkerId from, const LinkBroken& message) {
  if (message.generation > generation_ || !roster_.Contains(message.peer)) return;
  if (roster_.At(message.peer).presence == Place::Presence::kExpected) {
    early_reports_[message.peer].emplace_back(from, message);  // it has to say hello first
  } else {
    detection_.OnLinkBroken(from, message, now_);
  }
}

void Coordinator::Receive(WorkerId from, const StillHere& message) {
  detection_.OnStillHere(from, message, now_);
}

void Coordinator::Receive(WorkerId from, const Ledger& message) {
  if (phase_ != Phase::kPreparing || message.generation != generation_) return;
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.version);
  ledgers_[from] = message;
  snapshots_.NoteAll(from, message.snapshots, now_);
  if (auto news = rejoins_.Settle(from)) changes_.Settle(*std::move(news));
  MakePlanIfNeeded();
}

void Coordinator::Receive(WorkerId from, const Resumed& message) {
  if (phase_ == Phase::kResuming && message.generation == generation_) resumed_.insert(from);
}

void Coordinator::Receive(WorkerId from, const IterationDone& message) {
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.iteration + 1);
  for (IterationDone& done : completion_.OnIterationDone(message)) {
    effects_.emplace_back(AnnounceIteration{.done = std::move(done),
                                            .workers_live = static_cast<int>(roster_.Live().size()),
                                            .peak_bytes = roster_.PeakBytes()});
    standstill_.OnIteration(now_);
    const IterationDone& last = std::get<AnnounceIteration>(effects_.back()).done;
    if (last.skipped_in_a_row > 0) JudgeSkippedStep(last.iteration, last.skipped_in_a_row);
  }
  ConsiderRoleChange();
}

// Nothing has been learnt from any of them: more of the same will not help.
void Coordinator::JudgeSkippedStep(std::int32_t iteration, std::int32_t in_a_row) {
  effects_.emplace_back(AnnounceSkippedStep{iteration, in_a_row});
  if (in_a_row < kSkippedStepsAllowed || phase_ == Phase::kOver) return;
  End({.how = EndJob::How::kDiverged,
       .reason = fmt::format("training diverges: the gradient was not finite in {} iterations in a "
                             "row, the last of them {}; lower optimizer.lr, clip the gradient "
                             "(optimizer.clip), or begin with more optimizer.warmup",
                             in_a_row, iteration + 1),
       .parameters_sha256 = ""});
}

void Coordinator::Receive(WorkerId from, const LastWords& message) {
  detection_.OnLastWords(from, message, now_);
}

void Coordinator::Receive(WorkerId from, const FaultReport& message) {
  effects_.emplace_back(AnnounceFault{from, message});
}

void Coordinator::Receive(WorkerId from, const Finished& message) {
  completion_.OnFinished(from, message);
  if (phase_ == Phase::kResuming) resumed_.insert(from);  // there was nothing left to resume
}

void Coordinator::Receive(WorkerId from, const StateHash& message) {
  const auto difference = comparison_.Receive(from, message);
  if (!difference) return;
  if (!difference->right.empty()) {
    for (const WorkerId worker : difference->wrong) {
      detection_.OnCorrupted(worker, message.version, difference->right, now_);
      if (++corruptions_[worker] <= kCorruptionsForgiven) to_repair_.insert(worker);
    }
    return;
  }
  const std::optional<std::int32_t> equal = comparison_.LastEqual(from.stage);
  End({.how = EndJob::How::kDiverged,
       .reason = fmt::format(
           "the workers of stage {} ({}) have different parameters or moments after {} iterations, "
           "and no majority tells who is right: memory that corrupts data, or a bug; {}",
           from.stage.value(), ToString(difference->wrong), message.version,
           equal ? fmt::format("they were equal last after {} iterations, and a checkpoint of then "
                               "or before is good",
                               *equal)
                 : "they have not been compared before"),
       .parameters_sha256 = ""});
}

void Coordinator::Receive(WorkerId from, const Departing& message) {
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.version);
  const std::optional<AnnounceRoleChange> change = role_changes_.OnDeparting(from, message.next);
  if (roster_.IsLastOfStage(from)) {  // its peers have died meanwhile
    changes_.Stay(from, "it is the last of its stage");
  } else if (change) {
    detection_.OnDeparting(
        from, fmt::format("it becomes worker {}: {}", ToString(change->to), change->reason), now_);
    effects_.emplace_back(*change);
  } else if (message.next) {
    changes_.Stay(from,
                  fmt::format("becoming worker {} does not pay any more", ToString(*message.next)));
  } else {
    detection_.OnDeparting(from, "it was asked to", now_);
  }
}

// Of any generation: the file is named after its own, and the sender is a member of this one.
void Coordinator::Receive(WorkerId /*from*/, const ShardWritten& message) {
  effects_.emplace_back(AnnounceShard{message});
}

void Coordinator::Receive(WorkerId from, const RestoreFailed& message) {
  if (phase_ != Phase::kPreparing || message.generation != generation_) return;
  if (restoration_.from_memory()) {
    snapshots_.Forget(from, message.version);
    return GoBack(
        fmt::format("{}; worker {}: {}", restoration_.reason(), ToString(from), message.error));
  }
  GoBackToCheckpoint(fmt::format("worker {} cannot load the checkpoint of iteration {}: {}",
                                 ToString(from), message.version, message.error),
                     message.version);
}

void Coordinator::Receive(WorkerId from, const TransferOpened& message) {
  rejoins_.Receive(from, message);
  snapshots_.Receive(from, message);
}

void Coordinator::Receive(WorkerId from, const TransferBroken& message) {
  rejoins_.Receive(from, message);
  snapshots_.Receive(from, message);
}

// Of an older generation: the sender's ledger of this one says it.
void Coordinator::Receive(WorkerId /*from*/, const Amend& message) {
  const bool runs = phase_ == Phase::kResuming || phase_ == Phase::kTraining;
  if (runs && message.generation == generation_) changes_.Amend(message.verdict);
}

void Coordinator::Receive(WorkerId /*from*/, const Outgrown& message) {
  const bool runs = phase_ == Phase::kResuming || phase_ == Phase::kTraining;
  if (runs && message.generation == generation_) changes_.Redo(message.quantum);
}

// --- coming after another coordinator ------------------------------------------------------------

void Coordinator::TakeOver(Inheritance inheritance) {
  GenerationRecord& record = inheritance.record;
  succeeds_ = true;
  generation_ = record.generation;
  reason_ = record.reason;
  work_ = std::move(inheritance.told);
  completion_.RestartAt(inheritance.iterations_done);
  completion_.NoteLastLoss(inheritance.last_loss);
  if (!inheritance.restored) restoration_ = Restoration(record.restore, record.from_memory);
  transfer_numbers_.StartAfter(record.generation);
  costs_.TakeOver(record.measured);
  for (const auto& [worker, pid] : record.pids) roster_.At(worker).pid = pid;
  std::vector<WorkerId> lost;
  std::vector<WorkerId> unplanned;
  for (const WorkerId worker : roster_.Expected()) {
    if (std::count(record.members.begin(), record.members.end(), worker) > 0) continue;
    Place& place = roster_.At(worker);
    place.presence = Place::Presence::kLost;
    place.how_lost = "it was lost under an earlier coordinator";
    place.fenced = true;
    lost.push_back(worker);
    if (work_.plan != nullptr && FindWorker(work_.plan->workers, worker) != nullptr) {
      unplanned.push_back(worker);
    }
  }
  for (const LostWorker& entry : record.lost) {
    roster_.At(entry.worker).left = entry.cause == LossCause::kNotice;
    if (entry.cause == LossCause::kCorruption) to_repair_.insert(entry.worker);
  }
  changes_.TakeOver(record, std::move(lost), std::move(unplanned));
  inherited_returns_ = std::move(record.returning);
  for (const auto& [from, to] : record.moving) roster_.At(from).left = true;
  role_changes_.TakeOver(record.moving);
}

bool Coordinator::IsStillMember(WorkerId worker, const Hello& message) {
  Place& place = roster_.At(worker);
  if (place.pid != message.pid) {
    detection_.OnReplaced(worker, now_);
    HearFromLost(worker, message);
    return false;
  }
  const auto returning = inherited_returns_.find(worker);
  if (returning == inherited_returns_.end()) return true;
  if (message.generation > Generation(0)) {
    changes_.Settle({.what = AnnounceRejoin::What::kRejoined,
                     .worker = worker,
                     .donor = returning->second,
                     .reason = ""});
    return true;
  }
  // It was admitted and has not taken over its donor's state: it begins once more.
  place.presence = Place::Presence::kLost;
  place.how_lost = "it was not taken back yet";
  place.fenced = true;
  changes_.Withdraw(worker, "it begins its copy anew");
  rejoins_.Add(worker, now_);
  return false;
}

}  // namespace recycle
