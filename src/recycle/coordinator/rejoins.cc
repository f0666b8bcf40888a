#include "recycle/coordinator/rejoins.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace recycle {
namespace {

// A joiner whose links break more often than this, though both ends live, is given up.
constexpr int kBrokenLinksAllowed = 4;

}  // namespace

bool Rejoins::IsJoiner(WorkerId worker) const {
  const auto entry = joiners_.find(worker);
  return entry != joiners_.end() && entry->second.state != State::kAdmitted;
}

std::vector<WorkerId> Rejoins::Joiners() const {
  std::vector<WorkerId> workers;
  for (const auto& [worker, joiner] : joiners_) {
    if (joiner.state != State::kAdmitted) workers.push_back(worker);
  }
  return workers;
}

std::map<WorkerId, WorkerId> Rejoins::Admitted() const {
  std::map<WorkerId, WorkerId> admitted;
  for (const auto& [worker, joiner] : joiners_) {
    if (joiner.state == State::kAdmitted) admitted[worker] = joiner.donor;
  }
  return admitted;
}

void Rejoins::Add(WorkerId worker, TimePoint now) {
  joiners_[worker] = Joiner();
  joiners_[worker].last_heard = now;
}

void Rejoins::OnJoinerMessage(WorkerId joiner, const ExecutorMessage& message, TimePoint now) {
  joiners_.at(joiner).last_heard = now;
  if (const auto* opened = std::get_if<TransferOpened>(&message)) {
    Receive(joiner, *opened);
  } else if (const auto* broken = std::get_if<TransferBroken>(&message)) {
    Receive(joiner, *broken);
  } else if (const auto* caught_up = std::get_if<CaughtUp>(&message)) {
    OnCaughtUp(joiner, *caught_up);
  } else if (const auto* words = std::get_if<LastWords>(&message)) {
    OnGone(joiner, "it said: " + words->message);
  }
}

void Rejoins::Receive(WorkerId from, const TransferOpened& message) {
  const Entry entry = FindTransfer(message.transfer);
  if (entry == joiners_.end() || entry->second.state != State::kOpening) return;
  auto& [worker, joiner] = *entry;
  if (from == worker) joiner.joiner_end = message.address;
  if (from == joiner.donor) joiner.donor_end = message.address;
  if (joiner.joiner_end.empty() || joiner.donor_end.empty()) return;
  joiner.state = State::kCopying;
  const Transfer transfer{.transfer = joiner.transfer,
                          .donor = joiner.donor,
                          .joiner = worker,
                          .donor_end = joiner.donor_end,
                          .joiner_end = joiner.joiner_end};
  Send(joiner.donor, transfer);
  Send(worker, transfer);
}

void Rejoins::Receive(WorkerId from, const TransferBroken& message) {
  if (!numbers_.IsOwn(message.transfer)) {  // an earlier coordinator's
    Send(from, EndTransfer{message.transfer});
    return;
  }
  const Entry entry = FindTransfer(message.transfer);
  if (entry == joiners_.end()) return;
  auto& [worker, joiner] = *entry;
  if (from != worker && from != joiner.donor) return;
  if (++joiner.broken_links > kBrokenLinksAllowed) {
    Refuse(entry, fmt::format("its links to donors broke {} times, the last one to {}: {}",
                              joiner.broken_links, ToString(joiner.donor), message.error));
  } else {
    StartOver(entry);
  }
}

void Rejoins::OnCaughtUp(WorkerId worker, const CaughtUp& message) {
  const Entry entry = FindTransfer(message.transfer);
  if (entry == joiners_.end() || entry->first != worker) return;
  Joiner& joiner = entry->second;
  if (joiner.state != State::kCopying) return;
  joiner.state = State::kCaughtUp;
  joiner.bytes = message.bytes;
  joiner.copy_time = std::chrono::microseconds(message.microseconds);
}

void Rejoins::OnGone(WorkerId joiner, const std::string& how) {
  const Entry entry = joiners_.find(joiner);
  if (entry == joiners_.end() || entry->second.state == State::kAdmitted) return;
  Abandon(entry, how);
}

void Rejoins::OnLost(WorkerId worker) {
  if (const Entry own = joiners_.find(worker);
      own != joiners_.end() && own->second.state == State::kAdmitted) {
    EndTransferOf(own);
    findings_.news.push_back({.what = AnnounceRejoin::What::kAbandoned,
                              .worker = worker,
                              .donor = own->second.donor,
                              .reason = roster_.At(worker).how_lost});
    joiners_.erase(own);
  }
  for (Entry entry = joiners_.begin(); entry != joiners_.end(); ++entry) {
    if (entry->second.state != State::kWaiting && entry->second.donor == worker) StartOver(entry);
  }
}

void Rejoins::OnTime(TimePoint now) {
  for (const WorkerId worker : Joiners()) {
    const Duration silent = now - joiners_.at(worker).last_heard;
    if (silent < failure_timeout_) continue;
    Refuse(joiners_.find(worker),
           fmt::format("silent for {:.1f} s", ToMilliseconds(silent) / 1000));
  }
}

void Rejoins::ForgiveGap(Duration gap) {
  for (auto& [worker, joiner] : joiners_) joiner.last_heard += gap;
}

std::optional<TimePoint> Rejoins::NextDeadline() const {
  std::optional<TimePoint> next;
  for (const auto& [worker, joiner] : joiners_) {
    if (joiner.state == State::kAdmitted) continue;
    const TimePoint deadline = joiner.last_heard + failure_timeout_;
    next = next ? std::min(*next, deadline) : deadline;
  }
  return next;
}

// A donor must have all of the state itself. The loss of the joiner's place has to be known to it:
// else it could take the new process for the old one.
void Rejoins::AssignDonors() {
  for (auto& [worker, joiner] : joiners_) {
    if (joiner.state != State::kWaiting || !roster_.At(worker).fenced) continue;
    const std::optional<WorkerId> donor = ChooseDonor(worker);
    if (!donor) continue;
    joiner.state = State::kOpening;
    joiner.donor = *donor;
    joiner.transfer = numbers_.Next();
    joiner.donor_end.clear();
    joiner.joiner_end.clear();
    const Transfer transfer{.transfer = joiner.transfer,
                            .donor = *donor,
                            .joiner = worker,
                            .donor_end = "",
                            .joiner_end = ""};
    Send(*donor, transfer);
    Send(worker, transfer);
    findings_.news.push_back(
        {.what = AnnounceRejoin::What::kStarted, .worker = worker, .donor = *donor, .reason = ""});
  }
}

std::optional<WorkerId> Rejoins::ChooseDonor(WorkerId joiner) const {
  std::optional<std::pair<int, WorkerId>> best;  // copies, donor
  for (const WorkerId peer : roster_.Live()) {
    if (peer.stage != joiner.stage || joiners_.contains(peer)) continue;
    const auto copies = std::count_if(joiners_.begin(), joiners_.end(), [peer](const auto& entry) {
      return entry.second.state != State::kWaiting && entry.second.donor == peer;
    });
    const std::pair<int, WorkerId> candidate(static_cast<int>(copies), peer);
    if (!best || candidate < *best) best = candidate;
  }
  if (!best) return std::nullopt;
  return best->second;
}

std::vector<WorkerId> Rejoins::Admit() {
  std::vector<WorkerId> admitted;
  for (auto& [worker, joiner] : joiners_) {
    if (joiner.state != State::kCaughtUp) continue;
    joiner.state = State::kAdmitted;
    admitted.push_back(worker);
  }
  return admitted;
}

std::vector<WorkerId> Rejoins::TakeAll() {
  const std::vector<WorkerId> joiners = Joiners();
  for (Entry entry = joiners_.begin(); entry != joiners_.end(); entry = joiners_.erase(entry)) {
    EndTransferOf(entry);
  }
  return joiners;
}

void Rejoins::TakeOnly(const std::vector<WorkerId>& workers) {
  for (const WorkerId worker : workers) joiners_.erase(worker);
  for (Entry entry = joiners_.begin(); entry != joiners_.end(); ++entry) {
    if (entry->second.state != State::kWaiting) StartOver(entry);
  }
}

std::optional<AnnounceRejoin> Rejoins::Settle(WorkerId worker) {
  const Entry entry = joiners_.find(worker);
  if (entry == joiners_.end() || entry->second.state != State::kAdmitted) return std::nullopt;
  EndTransferOf(entry);
  AnnounceRejoin news{.what = AnnounceRejoin::What::kRejoined,
                      .worker = worker,
                      .donor = entry->second.donor,
                      .copy_bytes = entry->second.bytes,
                      .copy_time = entry->second.copy_time,
                      .reason = ""};
  joiners_.erase(entry);
  return news;
}

Rejoins::Entry Rejoins::FindTransfer(std::int64_t transfer) {
  return std::find_if(joiners_.begin(), joiners_.end(), [transfer](const auto& entry) {
    return entry.second.state != State::kWaiting && entry.second.transfer == transfer;
  });
}

void Rejoins::EndTransferOf(Entry entry) {
  const Joiner& joiner = entry->second;
  if (joiner.state == State::kWaiting) return;
  Send(joiner.donor, EndTransfer{joiner.transfer});
  Send(entry->first, EndTransfer{joiner.transfer});
}

void Rejoins::StartOver(Entry entry) {
  EndTransferOf(entry);
  if (entry->second.state == State::kAdmitted) findings_.withdrawn.push_back(entry->first);
  entry->second.state = State::kWaiting;
}

void Rejoins::Abandon(Entry entry, const std::string& why) {
  EndTransferOf(entry);
  if (entry->second.state == State::kAdmitted) findings_.withdrawn.push_back(entry->first);
  findings_.news.push_back({.what = AnnounceRejoin::What::kAbandoned,
                            .worker = entry->first,
                            .donor = entry->second.donor,
                            .reason = why});
  joiners_.erase(entry);
}

// The process lives, or may live: it ends, and may be started again.
void Rejoins::Refuse(Entry entry, const std::string& why) {
  Send(entry->first, Fence{"it is not taken back: " + why});
  Abandon(entry, why);
}

void Rejoins::Send(WorkerId to, CoordinatorMessage message) {
  findings_.sends.push_back({to, std::move(message)});
}

}  // namespace recycle
