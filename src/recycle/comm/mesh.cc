#include "recycle/comm/mesh.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/comm/link.h"

namespace recycle {
namespace {

// A peer that has not come by then is not going to. Long, because the coordinator, who knows of
// deaths within milliseconds, ends a hopeless Connect through Abort.
constexpr std::chrono::seconds kConnectTimeout(60);

void Add(const MeshCounters& more, MeshCounters& total) {
  total.frames_sent += more.frames_sent;
  total.bytes_sent += more.bytes_sent;
  total.frames_received += more.frames_received;
  total.bytes_received += more.bytes_received;
}

}  // namespace

Mesh::Mesh(std::shared_ptr<Device> device, WorkerId self, std::size_t max_payload_bytes,
           Inbox& inbox, OnLinkBroken on_link_broken)
    : device_(std::move(device)),
      self_(self),
      max_payload_bytes_(max_payload_bytes),
      inbox_(inbox),
      on_link_broken_(std::move(on_link_broken)) {}

Mesh::~Mesh() {
  while (!links_.empty()) Close(links_.begin()->first);
}

std::map<WorkerId, std::string> Mesh::Open(const std::vector<WorkerId>& peers) {
  std::map<WorkerId, std::string> addresses;
  for (const WorkerId peer : peers) {
    RC_CHECK(peer != self_) << "worker " << self_ << " cannot be its own peer";
    Close(peer);
    StatusOr<std::shared_ptr<PeerLink>> link = PeerLink::Open(
        device_, max_payload_bytes_,
        {.settled =
             [this] {
               const std::lock_guard lock(mutex_);
               settled_.notify_all();
             },
         .received = [this](Frame frame) { inbox_.Deliver(std::move(frame)); },
         .broken = [this, peer](const std::string& error) { on_link_broken_(peer, error); }});
    RC_CHECK(link.ok()) << "link to " << peer << ": " << link.status().message();
    addresses[peer] = (*link)->address();
    const std::lock_guard lock(mutex_);
    links_[peer] = *std::move(link);
  }
  const std::lock_guard lock(mutex_);
  abort_ = OkStatus();
  return addresses;
}

Status Mesh::Connect(const std::map<WorkerId, std::string>& remote_addresses) {
  std::map<WorkerId, std::shared_ptr<PeerLink>> connecting;
  for (const auto& [peer, address] : remote_addresses) {
    const std::shared_ptr<PeerLink> link = Find(peer);
    RC_CHECK(link != nullptr) << "Connect to " << peer << " before Open";
    if (link->state() != PeerLink::State::kOpened) continue;
    link->Start(address);
    connecting[peer] = link;
  }
  const auto all_settled = [&] {
    return std::none_of(connecting.begin(), connecting.end(), [](const auto& entry) {
      return entry.second->state() == PeerLink::State::kConnecting;
    });
  };
  std::unique_lock lock(mutex_);
  settled_.wait_for(lock, kConnectTimeout, [&] { return !abort_.ok() || all_settled(); });
  const std::string why = abort_.ok() ? "the peer did not come" : std::string(abort_.message());
  lock.unlock();
  for (const auto& [peer, link] : connecting) {
    if (link->state() == PeerLink::State::kConnecting) link->Break(why);
  }
  lock.lock();
  settled_.wait(lock, all_settled);
  if (!abort_.ok()) return abort_;
  std::string failures;
  for (const auto& [peer, link] : connecting) {
    if (link->state() == PeerLink::State::kConnected) continue;
    failures += (failures.empty() ? "no link to " : "; ") + ToString(peer) + ": " +
                std::string(link->error().message());
  }
  return failures.empty() ? OkStatus() : absl::UnavailableError(failures);
}

void Mesh::Abort(Status why) {
  RC_CHECK(absl::IsAborted(why)) << "Abort wants kAborted, not " << why.ToString();
  const std::lock_guard lock(mutex_);
  abort_ = std::move(why);
  settled_.notify_all();
}

void Mesh::Close(WorkerId peer) {
  const std::shared_ptr<PeerLink> link = Find(peer);
  if (link == nullptr) return;
  link->Close();
  const std::lock_guard lock(mutex_);
  Add(link->counters(), closed_links_);
  links_.erase(peer);
}

Status Mesh::Send(WorkerId to, OutgoingFrame frame, SendHook hook) {
  const std::shared_ptr<PeerLink> link = Find(to);
  Status status = link == nullptr ? absl::UnavailableError("never opened, or closed")
                                  : link->Send(std::move(frame), std::move(hook));
  if (status.ok()) return status;
  return absl::UnavailableError("link to " + ToString(to) + ": " + std::string(status.message()));
}

std::vector<WorkerId> Mesh::links() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerId> peers;
  for (const auto& [peer, link] : links_) {
    if (link->state() == PeerLink::State::kConnected) peers.push_back(peer);
  }
  return peers;
}

MeshCounters Mesh::counters() const {
  const std::lock_guard lock(mutex_);
  MeshCounters total = closed_links_;
  for (const auto& [peer, link] : links_) Add(link->counters(), total);
  return total;
}

void Mesh::CutForTest(WorkerId peer) {
  const std::shared_ptr<PeerLink> link = Find(peer);
  RC_CHECK(link != nullptr) << "no link to " << peer;
  link->Break("cut by a test");
}

std::shared_ptr<PeerLink> Mesh::Find(WorkerId peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second;
}

}  // namespace recycle
