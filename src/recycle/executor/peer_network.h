// Everything between this worker and its peers: links to the live workers of adjacent stages (any
// pipeline), the reduce group of its stage, and with tied embeddings one more over the first and
// the last stage. All of it lives per generation, except links between survivors, which stay.
//
//   Endpoints mine = network.Open(prepare);          // answered in the Ledger,
//   std::vector<FrameKey> waiting = network.Promise(prepare.generation);   // as is this
//   RC_RETURN_IF_ERROR(network.Connect(resume));     // from then on the generation runs
//   RC_RETURN_IF_ERROR(network.Send(peer, key, payload));
//   StatusOr<Frame> frame = network.Take(key);
//
// Endpoint names: "link k:i" = my end of the link to k:i; "stage k:i" and "tied k:i" = my seat in
// that group next to its member k:i.
//
// Expect, Interrupt, Rearm and CutLink may come from any thread; everything else belongs to the
// training thread. Errors of blocking calls: kAborted after Interrupt,
// kUnavailable when a peer is gone; in both cases a new generation is due.
#ifndef RECYCLE_EXECUTOR_PEER_NETWORK_H_
#define RECYCLE_EXECUTOR_PEER_NETWORK_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/comm/inbox.h"
#include "recycle/comm/mesh.h"
#include "recycle/comm/reduce_group.h"
#include "recycle/executor/control_mailbox.h"
#include "recycle/executor/pacer.h"
#include "recycle/executor/profile_writer.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct PeerNetworkOptions {
  WorkerId self;
  int num_stages = 1;
  bool tied = false;                  // first and last stage share parameters
  std::size_t max_payload_bytes = 0;  // of one frame
};

class PeerNetwork : public Interruptible {
 public:
  // A link to `peer` broke by itself in `generation` (the newest prepared). Called in a link's
  // thread, before anything is closed; not for peers that are known to be dead or whose link is to
  // be made anew.
  using OnLinkBroken =
      std::function<void(Generation generation, WorkerId peer, const std::string& error)>;

  PeerNetwork(const PeerNetworkOptions& options, std::shared_ptr<Device> device,
              OnLinkBroken on_link_broken);
  ~PeerNetwork() override;
  PeerNetwork(const PeerNetwork&) = delete;
  PeerNetwork& operator=(const PeerNetwork&) = delete;

  // Takes note of a Prepare as soon as it arrives: from now on breaks of links that it ends are no
  // news. Any thread.
  void Expect(const Prepare& prepare);

  // Leaves the running generation: drops links to the dead and links to be made anew, drops the
  // groups, and makes ends of what is missing for `prepare`. Error: kResourceExhausted.
  StatusOr<Endpoints> Open(const Prepare& prepare);

  // Connects what Open made and starts the generation. Other errors: kInternal if `resume` lacks an
  // address.
  Status Connect(const Resume& resume);

  // Never blocks. `hook` as in Mesh::Send.
  Status Send(WorkerId to, const FrameKey& key, SharedBytes payload, SendHook hook = {});
  // A paced worker's time goes on to when the frame comes.
  StatusOr<Frame> Take(const FrameKey& key);

  // From now on nothing older than `generation` is accepted. Returns the boundary tensors that have
  // come and are not consumed: they stay.
  std::vector<FrameKey> Promise(Generation generation) { return inbox_.Promise(generation); }
  // Iterations before `iteration` are closed: nothing of them is kept or accepted.
  void DropBefore(int iteration) { inbox_.DropBefore(iteration); }

  // Boundary tensors of `iteration` and later that have come count no more; between Promise and
  // Connect.
  void DropFrom(int iteration) { inbox_.DropFrom(iteration); }

  // All of the iterations from `iteration` on is still to come, in `generation` or later.
  void StartOver(Generation generation, int iteration) { inbox_.StartOver(generation, iteration); }

  // Valid between Connect and the next Open. The tied group exists on the first and the last stage
  // of a tied model with several stages, and is null elsewhere.
  ReduceGroup& stage_group() { return *stage_group_.group; }
  ReduceGroup* tied_group() { return tied_group_.group.get(); }

  WorkerId self() const { return options_.self; }
  Generation generation() const { return generation_; }
  const std::vector<WorkerId>& members() const { return members_; }  // live workers, ascending
  std::int64_t link_bytes_sent() const { return mesh_.counters().bytes_sent; }

  void Interrupt(const std::string& why) override;
  void Rearm() override;

  // From now on every frame sent and every frame that comes is written to `profile`, which must
  // outlive this. Call it before the first Connect.
  void Measure(ProfileWriter& profile);
  // This worker is paced by `pacer`, which must outlive this: frames carry its time. Call it before
  // the first Connect.
  void Pace(Pacer& pacer) { pacer_ = &pacer; }

  // Fault injection: breaks a live link as a network would.
  void CutLink(WorkerId peer) { mesh_.CutForTest(peer); }
  bool HasLink(WorkerId peer) const { return mesh_.Has(peer); }
  // Fault injection: called before hop `hop` of every all-reduce of the generations to come.
  void SetHopHook(std::function<void(int hop)> hook) { hop_hook_ = std::move(hook); }

 private:
  struct Group {
    std::string purpose;  // "stage" or "tied"
    std::vector<WorkerId> ring;
    std::unique_ptr<ReduceGroup> group;
  };

  bool IsAdjacent(WorkerId peer) const;
  bool InTiedUnit(WorkerId worker) const;
  void ReportBroken(WorkerId peer, const std::string& error);
  void CloseLinks(const Prepare& prepare);
  void OpenLinks(Endpoints& endpoints);
  Status OpenGroup(Generation generation, Group& group,
                   bool (PeerNetwork::*belongs)(WorkerId) const, Endpoints& endpoints);
  bool InStage(WorkerId worker) const { return worker.stage == options_.self.stage; }
  Status ConnectLinks(const Resume& resume);
  Status ConnectGroup(Group& group, const Resume& resume);

  const PeerNetworkOptions options_;
  const std::shared_ptr<Device> device_;
  const OnLinkBroken on_link_broken_;
  ProfileWriter* profile_ = nullptr;
  Pacer* pacer_ = nullptr;
  std::function<void(int hop)> hop_hook_;

  std::vector<WorkerId> members_;
  Generation generation_;        // running
  std::vector<WorkerId> unmet_;  // peers whose links Open made and Connect has not connected
  std::set<WorkerId> linked_;    // peers that a link was ever opened to, and not closed

  std::mutex mutex_;            // guards what follows and the groups' pointers
  std::string interrupt_;       // why; empty = not interrupted
  Generation expected_;         // newest Prepare heard of
  std::set<WorkerId> no_news_;  // peers whose links are to end
  Group stage_group_{"stage", {}, nullptr};
  Group tied_group_{"tied", {}, nullptr};

  Inbox inbox_;
  Mesh mesh_;  // its threads use all of the above: last
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_PEER_NETWORK_H_
