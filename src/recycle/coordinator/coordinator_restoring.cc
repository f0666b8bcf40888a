// A stage has no worker left: the way back to a snapshot or a checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/coordinator/coordinator.h"

namespace recycle {

void Coordinator::LoseStage(StageId stage) {
  std::string losses;
  for (const WorkerId worker : roster_.Lost()) {
    if (worker.stage != stage) continue;
    losses += fmt::format("{}{} ({})", losses.empty() ? "" : ", ", ToString(worker),
                          roster_.At(worker).how_lost);
  }
  const std::string reason = fmt::format(
      "stage {} has no live worker left, its parameters are lost: {}", stage.value(), losses);
  const bool has_begun = succeeds_ || phase_ != Phase::kJoining;
  restoration_.Finish();
  BeginGeneration();  // the record of who is lost
  if (!has_begun) {
    End({.how = EndJob::How::kStageLost, .reason = reason, .parameters_sha256 = ""});
  } else {
    GoBack(reason);
  }
}

void Coordinator::GoBack(const std::string& reason) {
  if (const auto version = snapshots_.Newest(completion_.iterations_done())) {
    GoBackToSnapshot(reason, *version);
  } else {
    GoBackToCheckpoint(reason, std::nullopt);
  }
}

void Coordinator::GoBackToSnapshot(const std::string& reason, std::int32_t version) {
  phase_ = Phase::kRestoring;
  restoration_.Choose(reason);
  restoration_.OnChosen(version, /*from_memory=*/true, now_ + options_.join_timeout);
  GatherWorkers();
}

void Coordinator::GoBackToCheckpoint(const std::string& reason,
                                     std::optional<std::int32_t> failed) {
  const std::string why = snapshots_.WhyNone();
  const std::string all = why.empty() || failed ? reason : reason + "; " + why;
  restoration_.Choose(all);
  if (options_.checkpoints) {
    phase_ = Phase::kRestoring;
    effects_.emplace_back(ChooseCheckpoint{.failed = failed, .reason = all});
  } else {
    End({.how = EndJob::How::kStageLost, .reason = all, .parameters_sha256 = ""});
  }
}

void Coordinator::GatherWorkers() {
  if (!restoration_.deadline()) return;  // which checkpoint is not known yet
  if (restoration_.from_memory() && !FeedSnapshot(*restoration_.version())) {
    snapshots_.GiveUp(*restoration_.version());
    return GoBack(std::string(restoration_.reason()));
  }
  const Restoration::Gathered gathered = restoration_.Gather(roster_, rejoins_, snapshots_, now_);
  for (const WorkerId worker : gathered.start) effects_.emplace_back(StartWorker{worker});
  if (!gathered.done) return;
  if (gathered.missing) {
    End({.how = EndJob::How::kStageLost,
         .reason = fmt::format("{}; no process has come for it within {:.0f} s",
                               restoration_.reason(), ToMilliseconds(options_.join_timeout) / 1000),
         .parameters_sha256 = ""});
    return;
  }
  TakeGathered();
  BeginGeneration();
}

bool Coordinator::FeedSnapshot(std::int32_t version) {
  if (!snapshots_.Suffices(version)) return false;
  std::vector<WorkerId> receivers = roster_.Live();
  for (const WorkerId worker : rejoins_.Joiners()) {
    if (roster_.NumLeft(worker.stage) == 0) receivers.push_back(worker);
  }
  return std::all_of(receivers.begin(), receivers.end(),
                     [&](WorkerId worker) { return snapshots_.Feed(worker, version); });
}

// From memory those come along that have their state.
void Coordinator::TakeGathered() {
  std::vector<WorkerId> taken;
  if (restoration_.from_memory()) {
    taken = rejoins_.Joiners();
    std::erase_if(taken, [this](WorkerId worker) {
      return !snapshots_.Has(worker, *restoration_.version());
    });
    rejoins_.TakeOnly(taken);
    AbsorbRejoins();
  } else {
    taken = rejoins_.TakeAll();
  }
  for (const WorkerId worker : taken) MakeLive(worker);
}

void Coordinator::StartOver(std::int32_t version) {
  effects_.emplace_back(
      AnnounceRestored{.version = version,
                       .lost_iterations = std::max(0, completion_.iterations_done() - version),
                       .from_memory = restoration_.from_memory()});
  completion_.RestartAt(version);
  snapshots_.StartOver(version, restoration_.from_memory());
  restoration_.Finish();
  for (const WorkerId member : roster_.Live()) roster_.At(member).version = version;
  // What was told, and what was lost of it, is void.
  work_ = AssignedWork();
  changes_.TakeUnplanned();
  unresumed_shares_.clear();
  changes_.TakeRejoins();
  comparison_.StartOver();
  rollbacks_.clear();
  redone_.clear();
}

}  // namespace recycle
