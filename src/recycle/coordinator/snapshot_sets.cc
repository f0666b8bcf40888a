#include "recycle/coordinator/snapshot_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace recycle {
namespace {

// A pair whose link breaks more often than this, though both ends live, is given up.
constexpr int kBreaksAllowed = 4;

}  // namespace

// --- what workers say ------------------------------------------------------------------------

void SnapshotSets::NoteAll(WorkerId worker, const std::vector<SnapshotHeld>& held, TimePoint now) {
  kept_.erase(worker);
  for (const SnapshotHeld& entry : held) Receive(worker, entry, now);
}

void SnapshotSets::Receive(WorkerId from, const SnapshotHeld& message, TimePoint now) {
  kept_[from][{message.stage, message.version}] = message.bytes;
  first_heard_.try_emplace(message.version, now);
}

void SnapshotSets::Receive(WorkerId from, const TransferOpened& message) {
  const auto found = channels_.find(message.transfer);
  if (found == channels_.end()) return;
  Channel& channel = found->second;
  if (from == channel.donor) channel.donor_end = message.address;
  if (from == channel.joiner) channel.joiner_end = message.address;
  if (channel.donor_end.empty() || channel.joiner_end.empty()) return;
  const Transfer transfer{.transfer = message.transfer,
                          .donor = channel.donor,
                          .joiner = channel.joiner,
                          .donor_end = channel.donor_end,
                          .joiner_end = channel.joiner_end,
                          .snapshot = channel.order};
  Send(channel.donor, transfer);
  Send(channel.joiner, transfer);
}

void SnapshotSets::Receive(WorkerId from, const TransferBroken& message) {
  const auto found = channels_.find(message.transfer);
  if (found == channels_.end()) return;
  const auto& [transfer, channel] = *found;
  if (from != channel.donor && from != channel.joiner) return;
  ++breaks_[{channel.donor, channel.joiner}];
  if (channel.order.version && IsGivenUp(channel.donor, channel.joiner)) {
    kept_[channel.donor].erase({channel.order.stage, *channel.order.version});
  }
  End(found);
}

void SnapshotSets::OnGone(WorkerId worker) {
  kept_.erase(worker);
  for (auto channel = channels_.begin(); channel != channels_.end();) {
    const auto next = std::next(channel);
    if (channel->second.donor == worker || channel->second.joiner == worker) End(channel);
    channel = next;
  }
}

// --- transfers -------------------------------------------------------------------------------

void SnapshotSets::Route() {
  if (!options_.on) return;
  const std::vector<WorkerId> live = roster_.Live();
  if (!reroute_ && live == routed_) return;
  if (live != routed_) breaks_.clear();
  routed_ = live;
  routes_ = RouteSnapshots(live, options_.num_hosts, routes_);
  std::set<StageId> served;
  for (auto channel = channels_.begin(); channel != channels_.end();) {
    const auto next = std::next(channel);
    const Channel& now = channel->second;
    const auto route = routes_.find(now.order.stage);
    const bool fits = route != routes_.end() && !now.order.version &&
                      route->second == SnapshotRoute{now.donor, now.joiner};
    if (fits) {
      served.insert(now.order.stage);
    } else {
      End(channel);
    }
    channel = next;
  }
  reroute_ = false;
  for (const auto& [stage, route] : routes_) {
    if (served.contains(stage) || IsGivenUp(route.source, route.holder)) continue;
    Open({.stage = stage}, route.source, route.holder);
  }
}

void SnapshotSets::Open(const SnapshotOrder& order, WorkerId donor, WorkerId joiner) {
  const std::int64_t number = numbers_.Next();
  channels_[number] = {
      .order = order, .donor = donor, .joiner = joiner, .donor_end = "", .joiner_end = ""};
  const Transfer transfer{.transfer = number,
                          .donor = donor,
                          .joiner = joiner,
                          .donor_end = "",
                          .joiner_end = "",
                          .snapshot = order};
  Send(donor, transfer);
  Send(joiner, transfer);
}

void SnapshotSets::End(std::map<std::int64_t, Channel>::iterator channel) {
  Send(channel->second.donor, EndTransfer{channel->first});
  Send(channel->second.joiner, EndTransfer{channel->first});
  channels_.erase(channel);
  reroute_ = true;
}

void SnapshotSets::EndTransfers() {
  while (!channels_.empty()) End(channels_.begin());
}

bool SnapshotSets::IsGivenUp(WorkerId donor, WorkerId joiner) const {
  const auto breaks = breaks_.find({donor, joiner});
  return breaks != breaks_.end() && breaks->second > kBreaksAllowed;
}

bool SnapshotSets::Feed(WorkerId worker, std::int32_t version) {
  if (Has(worker, version)) return true;
  const bool is_fed = std::any_of(channels_.begin(), channels_.end(), [&](const auto& entry) {
    return entry.second.joiner == worker && entry.second.order.version == version &&
           entry.second.order.stage == worker.stage;
  });
  if (is_fed) return true;
  for (const auto& [donor, copies] : kept_) {
    if (!copies.contains({worker.stage, version}) || IsGivenUp(donor, worker)) continue;
    Open({.stage = worker.stage, .version = version}, donor, worker);
    return true;
  }
  return false;
}

// --- sets ------------------------------------------------------------------------------------

void SnapshotSets::Count(std::int32_t iterations_done, TimePoint now) {
  WarnOfGivenUp();
  for (const std::int32_t version : Versions()) {
    if (version <= counted_) return;
    if (version > iterations_done || !IsSet(version)) continue;
    counted_ = version;
    has_warned_ = false;
    AnnounceSnapshot news{.version = version, .bytes = 0, .time = now - first_heard_.at(version)};
    std::map<StageId, std::int64_t> bytes;
    for (auto& [worker, copies] : kept_) {
      for (const auto& [copy, size] : copies) {
        if (copy.second == version) bytes[copy.first] = size;
      }
      std::erase_if(copies, [&](const auto& entry) { return entry.first.second < version; });
    }
    for (const auto& [stage, size] : bytes) news.bytes += size;
    first_heard_.erase(first_heard_.begin(), first_heard_.upper_bound(version));
    findings_.news.push_back(news);
    for (const WorkerId member : roster_.Live()) Send(member, SnapshotCounts{version});
    return;
  }
}

// Once all have made the next one, nobody sends anything of one that is not through.
void SnapshotSets::WarnOfGivenUp() {
  const auto older = first_heard_.upper_bound(counted_);
  if (has_warned_ || older == first_heard_.end() || older == std::prev(first_heard_.end())) return;
  const std::int32_t newest = first_heard_.rbegin()->first;
  const std::vector<WorkerId> live = roster_.Live();
  const bool have_all =
      std::all_of(live.begin(), live.end(), [&](WorkerId worker) { return Has(worker, newest); });
  if (!have_all || IsSet(older->first)) return;
  has_warned_ = true;
  findings_.warnings.push_back(fmt::format(
      "the snapshot of iteration {} is given up: its copies had not arrived when that of iteration "
      "{} was made; a larger resilience.snapshot_every, or resilience.copy_mb_per_s, gives them "
      "time",
      older->first, newest));
}

bool SnapshotSets::IsSet(std::int32_t version) const {
  for (const WorkerId worker : roster_.Live()) {
    if (!Has(worker, version)) return false;
  }
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    if (!IsKeptElsewhere(StageId(stage), version)) return false;
  }
  return true;
}

bool SnapshotSets::Has(WorkerId worker, std::int32_t version) const {
  const auto copies = kept_.find(worker);
  return copies != kept_.end() && copies->second.contains({worker.stage, version});
}

bool SnapshotSets::IsKeptElsewhere(StageId stage, std::int32_t version) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const auto& entry) {
    return entry.first.stage != stage && roster_.IsLive(entry.first) &&
           entry.second.contains({stage, version});
  });
}

bool SnapshotSets::IsKept(StageId stage, std::int32_t version) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const auto& entry) {
    return entry.second.contains({stage, version});
  });
}

bool SnapshotSets::Suffices(std::int32_t version) const {
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    if (!IsKept(StageId(stage), version)) return false;
  }
  return true;
}

void SnapshotSets::GiveUp(std::int32_t version) {
  for (auto& [worker, copies] : kept_) {
    std::erase_if(copies, [version](const auto& copy) { return copy.first.second == version; });
  }
}

std::vector<std::int32_t> SnapshotSets::Versions() const {
  std::set<std::int32_t, std::greater<>> versions;
  for (const auto& [worker, copies] : kept_) {
    for (const auto& [copy, bytes] : copies) versions.insert(copy.second);
  }
  return {versions.begin(), versions.end()};
}

std::optional<std::int32_t> SnapshotSets::Newest(std::int32_t iterations_done) const {
  for (const std::int32_t version : Versions()) {
    if (version <= iterations_done && Suffices(version)) return version;
  }
  return std::nullopt;
}

std::string SnapshotSets::WhyNone() const {
  if (!options_.on) return "";
  if (counted_ == 0) return "there was no snapshot in memory yet";
  std::string stages;
  for (int stage = 0; stage < options_.num_stages; ++stage) {
    if (IsKept(StageId(stage), counted_)) continue;
    stages += fmt::format("{}{}", stages.empty() ? "" : ", ", stage);
  }
  if (stages.empty()) return fmt::format("the snapshot of iteration {} cannot be sent", counted_);
  return fmt::format("of the snapshot of iteration {} nobody who lives holds stage {}", counted_,
                     stages);
}

void SnapshotSets::Forget(WorkerId worker, std::int32_t version) {
  kept_[worker].erase({worker.stage, version});
}

void SnapshotSets::StartOver(std::int32_t version, bool from_memory) {
  counted_ = from_memory ? version : 0;
  for (auto& [worker, copies] : kept_) {
    std::erase_if(copies, [&](const auto& entry) { return entry.first.second != counted_; });
  }
  first_heard_.clear();
  reroute_ = true;
}

void SnapshotSets::Send(WorkerId to, CoordinatorMessage message) {
  findings_.sends.push_back({to, std::move(message)});
}

}  // namespace recycle
