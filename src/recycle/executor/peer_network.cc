#include "recycle/executor/peer_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/base/check.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

EndpointName NameOf(std::string_view purpose, WorkerId other_end) {
  return fmt::format("{} {}", purpose, ToString(other_end));
}

// The address that `owner` listens on under `name`, or nullptr.
const std::string* FindAddress(const Resume& resume, WorkerId owner, const EndpointName& name) {
  const auto of_owner = resume.endpoints.find(owner);
  if (of_owner == resume.endpoints.end()) return nullptr;
  const auto address = of_owner->second.find(name);
  return address == of_owner->second.end() ? nullptr : &address->second;
}

}  // namespace

PeerNetwork::PeerNetwork(const PeerNetworkOptions& options, std::shared_ptr<Device> device,
                         OnLinkBroken on_link_broken)
    : options_(options),
      device_(std::move(device)),
      on_link_broken_(std::move(on_link_broken)),
      mesh_(device_, options.self, options.max_payload_bytes, inbox_,
            [this](WorkerId peer, const std::string& error) { ReportBroken(peer, error); }) {}

PeerNetwork::~PeerNetwork() = default;

bool PeerNetwork::IsAdjacent(WorkerId peer) const {
  const int distance = peer.stage.value() - options_.self.stage.value();
  return distance == 1 || distance == -1;
}

bool PeerNetwork::InTiedUnit(WorkerId worker) const {
  return worker.stage.value() == 0 || worker.stage.value() == options_.num_stages - 1;
}

void PeerNetwork::ReportBroken(WorkerId peer, const std::string& error) {
  Generation generation;
  {
    const std::lock_guard lock(mutex_);
    if (no_news_.contains(peer)) return;
    generation = expected_;
  }
  on_link_broken_(generation, peer, error);
}

void PeerNetwork::Expect(const Prepare& prepare) {
  const std::lock_guard lock(mutex_);
  expected_ = std::max(expected_, prepare.generation);
  no_news_.insert(prepare.dead.begin(), prepare.dead.end());
  for (const auto& [a, b] : prepare.relinked) {
    if (a == options_.self) no_news_.insert(b);
    if (b == options_.self) no_news_.insert(a);
  }
}

StatusOr<Endpoints> PeerNetwork::Open(const Prepare& prepare) {
  Expect(prepare);
  members_ = prepare.members;
  std::sort(members_.begin(), members_.end());
  CloseLinks(prepare);
  Endpoints endpoints;
  OpenLinks(endpoints);
  RC_RETURN_IF_ERROR(OpenGroup(prepare.generation, stage_group_, &PeerNetwork::InStage, endpoints));
  if (options_.tied && options_.num_stages > 1 && InTiedUnit(options_.self)) {
    RC_RETURN_IF_ERROR(
        OpenGroup(prepare.generation, tied_group_, &PeerNetwork::InTiedUnit, endpoints));
  }
  return endpoints;
}

void PeerNetwork::CloseLinks(const Prepare& prepare) {
  std::set<WorkerId> closing;
  for (const WorkerId peer : linked_) {
    if (!std::binary_search(members_.begin(), members_.end(), peer)) closing.insert(peer);
  }
  for (const auto& [a, b] : prepare.relinked) {
    if (a == options_.self) closing.insert(b);
    if (b == options_.self) closing.insert(a);
  }
  for (const WorkerId peer : closing) {
    mesh_.Close(peer);
    linked_.erase(peer);
  }
}

void PeerNetwork::OpenLinks(Endpoints& endpoints) {
  const std::vector<WorkerId> connected = mesh_.links();
  unmet_.clear();
  for (const WorkerId member : members_) {
    if (!IsAdjacent(member)) continue;
    if (std::find(connected.begin(), connected.end(), member) == connected.end()) {
      unmet_.push_back(member);
    }
  }
  for (auto& [peer, address] : mesh_.Open(unmet_)) {
    endpoints[NameOf("link", peer)] = std::move(address);
  }
  linked_.insert(unmet_.begin(), unmet_.end());
  const std::lock_guard lock(mutex_);
  for (const WorkerId peer : unmet_) no_news_.erase(peer);
  // Mesh::Open forgets an Abort that came before it.
  if (!interrupt_.empty()) mesh_.Abort(absl::AbortedError(interrupt_));
}

Status PeerNetwork::OpenGroup(Generation generation, Group& group,
                              bool (PeerNetwork::*belongs)(WorkerId) const, Endpoints& endpoints) {
  group.ring.clear();
  std::copy_if(members_.begin(), members_.end(), std::back_inserter(group.ring),
               [&](WorkerId member) { return (this->*belongs)(member); });
  const auto self = std::find(group.ring.begin(), group.ring.end(), options_.self);
  if (self == group.ring.end()) {
    return absl::InternalError(fmt::format("Prepare of generation {} does not list its receiver {}",
                                           generation.value(), ToString(options_.self)));
  }
  std::unique_ptr<ReduceGroup> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::move(group.group);
  }
  old.reset();
  RC_ASSIGN_OR_RETURN(std::unique_ptr<ReduceGroup> opened,
                      ReduceGroup::Open(device_, static_cast<int>(self - group.ring.begin()),
                                        static_cast<int>(group.ring.size()), generation));
  for (auto& [rank, address] : opened->addresses()) {
    endpoints[NameOf(group.purpose, group.ring[static_cast<std::size_t>(rank)])] = address;
  }
  if (hop_hook_) opened->SetHopHook(hop_hook_);
  const std::lock_guard lock(mutex_);
  group.group = std::move(opened);
  if (!interrupt_.empty()) group.group->Abort(interrupt_);
  return OkStatus();
}

Status PeerNetwork::Connect(const Resume& resume) {
  RC_RETURN_IF_ERROR(ConnectLinks(resume));
  RC_RETURN_IF_ERROR(ConnectGroup(stage_group_, resume));
  if (tied_group_.group != nullptr) RC_RETURN_IF_ERROR(ConnectGroup(tied_group_, resume));
  generation_ = resume.generation;
  inbox_.StartGeneration(generation_);
  return OkStatus();
}

Status PeerNetwork::ConnectLinks(const Resume& resume) {
  std::map<WorkerId, std::string> addresses;
  for (const WorkerId peer : unmet_) {
    const std::string* address = FindAddress(resume, peer, NameOf("link", options_.self));
    if (address == nullptr) {
      // The peer believes that the old link lives: its end is gone with ours. The coordinator has
      // to have it made anew on both sides.
      ReportBroken(peer, "only one end of the link was opened anew");
      return absl::UnavailableError(
          fmt::format("{} has opened no link to {}", ToString(peer), ToString(options_.self)));
    }
    addresses[peer] = *address;
  }
  if (addresses.empty()) return OkStatus();
  Status connected = mesh_.Connect(addresses);
  if (!absl::IsUnavailable(connected)) return connected;
  // Nobody need have died: unless the coordinator hears of it, both ends wait for ever.
  const std::vector<WorkerId> met = mesh_.links();
  for (const auto& [peer, address] : addresses) {
    if (std::find(met.begin(), met.end(), peer) != met.end()) continue;
    ReportBroken(peer, std::string(connected.message()));
  }
  return connected;
}

Status PeerNetwork::ConnectGroup(Group& group, const Resume& resume) {
  std::map<int, std::string> addresses;
  for (const auto& [rank, mine] : group.group->addresses()) {
    const WorkerId neighbour = group.ring[static_cast<std::size_t>(rank)];
    const EndpointName name = NameOf(group.purpose, options_.self);
    const std::string* address = FindAddress(resume, neighbour, name);
    if (address == nullptr) {
      return absl::InternalError(
          fmt::format("Resume of generation {} lacks the endpoint '{}' of {}",
                      resume.generation.value(), name, ToString(neighbour)));
    }
    addresses[rank] = *address;
  }
  return group.group->Connect(addresses);
}

Status PeerNetwork::Send(WorkerId to, const FrameKey& key, SharedBytes payload, SendHook hook) {
  if (profile_ != nullptr) profile_->WriteSent(to, key, payload->size());
  const TimePoint stamp = pacer_ != nullptr ? pacer_->Now() : TimePoint();
  return mesh_.Send(to, {generation_, key, std::move(payload), stamp}, std::move(hook));
}

StatusOr<Frame> PeerNetwork::Take(const FrameKey& key) {
  RC_ASSIGN_OR_RETURN(Frame frame, inbox_.Take(key));
  if (pacer_ != nullptr) pacer_->Arrive(key.kind, frame.stamp);
  return frame;
}

void PeerNetwork::Measure(ProfileWriter& profile) {
  profile_ = &profile;
  inbox_.SetArrivalHook([&profile](const FrameKey& key, std::size_t payload_bytes) {
    profile.WriteArrived(key, payload_bytes);
  });
}

void PeerNetwork::Interrupt(const std::string& why) {
  const std::lock_guard lock(mutex_);
  interrupt_ = why;
  inbox_.Interrupt(absl::AbortedError(why));
  mesh_.Abort(absl::AbortedError(why));
  if (stage_group_.group != nullptr) stage_group_.group->Abort(why);
  if (tied_group_.group != nullptr) tied_group_.group->Abort(why);
}

void PeerNetwork::Rearm() {
  const std::lock_guard lock(mutex_);
  interrupt_.clear();
  inbox_.ClearInterrupt();
}

}  // namespace recycle
