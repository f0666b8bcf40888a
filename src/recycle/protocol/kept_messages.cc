#include "recycle/protocol/kept_messages.h"

#include <algorithm>

namespace recycle {

void KeptMessages::OnSend(const ExecutorMessage& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    hello_ = *hello;
  } else if (const auto* ledger = std::get_if<Ledger>(&message)) {
    if (!hello_) return;
    hello_->generation = ledger->generation;
    hello_->version = ledger->version;
    hello_->snapshots = ledger->snapshots;
  } else if (const auto* held = std::get_if<SnapshotHeld>(&message)) {
    if (hello_) hello_->snapshots.push_back(*held);
  } else if (const auto* broken = std::get_if<LinkBroken>(&message)) {
    broken_links_[broken->peer] = *broken;
  } else if (const auto* done = std::get_if<IterationDone>(&message)) {
    unrecorded_[done->iteration] = *done;
  } else if (const auto* measured = std::get_if<MeasuredCosts>(&message)) {
    measured_ = *measured;
  } else if (const auto* finished = std::get_if<Finished>(&message)) {
    finished_ = *finished;
  }
}

void KeptMessages::OnReceive(const CoordinatorMessage& message) {
  if (const auto* recorded = std::get_if<Recorded>(&message)) {
    unrecorded_.erase(unrecorded_.begin(), unrecorded_.upper_bound(recorded->iteration));
  } else if (const auto* counts = std::get_if<SnapshotCounts>(&message)) {
    if (!hello_) return;
    std::erase_if(hello_->snapshots,
                  [&](const SnapshotHeld& held) { return held.version < counts->version; });
  } else if (std::holds_alternative<Resume>(message)) {
    if (!hello_ || !goes_back_to_) return;
    std::erase_if(hello_->snapshots,
                  [&](const SnapshotHeld& held) { return held.version != *goes_back_to_; });
  } else if (const auto* transfer = std::get_if<Transfer>(&message)) {
    // Whatever ledger it has told before: it is no member until it has the donor's state.
    const bool joins = hello_ && transfer->joiner == hello_->worker && !transfer->snapshot;
    if (joins) hello_->generation = Generation(0);
  } else if (const auto* prepare = std::get_if<Prepare>(&message)) {
    finished_.reset();  // said anew in every generation
    goes_back_to_.reset();
    if (prepare->restore) goes_back_to_ = prepare->from_memory ? *prepare->restore : kNoSnapshot;
    if (prepare->restore) {  // what was done since is void
      unrecorded_.erase(unrecorded_.lower_bound(*prepare->restore), unrecorded_.end());
    }
    std::erase_if(broken_links_, [&](const auto& entry) {
      const WorkerId peer = entry.first;
      const auto& members = prepare->members;
      if (std::find(members.begin(), members.end(), peer) == members.end()) return true;
      return std::any_of(prepare->relinked.begin(), prepare->relinked.end(), [&](const auto& link) {
        return hello_ && ((link.first == peer && link.second == hello_->worker) ||
                          (link.second == peer && link.first == hello_->worker));
      });
    });
  }
}

std::vector<ExecutorMessage> KeptMessages::Again() const {
  std::vector<ExecutorMessage> messages;
  if (!hello_) return messages;
  messages.emplace_back(*hello_);
  for (const auto& [peer, broken] : broken_links_) messages.emplace_back(broken);
  for (const auto& [iteration, done] : unrecorded_) messages.emplace_back(done);
  if (measured_) messages.emplace_back(*measured_);
  if (finished_) messages.emplace_back(*finished_);
  return messages;
}

}  // namespace recycle
