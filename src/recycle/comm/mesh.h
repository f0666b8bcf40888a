// The point-to-point links of one worker on a sparse mesh. A link is a FIFO of frames to and from
// one peer with two threads of its own; what arrives goes straight to the inbox. A link that breaks
// takes no other link with it and is replaced by opening it anew.
//
//   Mesh mesh(device, self, 1 << 20, inbox, [&](WorkerId peer, const std::string& error) {...});
//   Publish(mesh.Open(peers));                      // our ends, as opaque bytes
//   RC_RETURN_IF_ERROR(mesh.Connect(their_ends));   // the ends that the peers opened for us
//   RC_RETURN_IF_ERROR(mesh.Send(peer, std::move(frame)));
//
// A live link has no timeout of any kind: a frozen peer looks like a slow one, until somebody
// closes the link. Open, Connect, Close and destruction belong to one thread; the rest is
// thread-safe.
#ifndef RECYCLE_COMM_MESH_H_
#define RECYCLE_COMM_MESH_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/comm/frame.h"
#include "recycle/comm/inbox.h"

namespace recycle {

class PeerLink;

// Called in a link's sender thread when half of a frame's payload has gone out.
using SendHook = std::function<void()>;

// Totals since the mesh was made, headers included.
struct MeshCounters {
  std::int64_t frames_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t frames_received = 0;
  std::int64_t bytes_received = 0;
};

class Mesh {
 public:
  // Called at most once per link, in the link's own thread, when a connected link breaks by itself
  // (peer gone, connection cut, corrupted frame). It may use Send and counters, nothing else of the
  // mesh, and must not wait for the thread that owns the mesh.
  using OnLinkBroken = std::function<void(WorkerId peer, const std::string& error)>;

  // `max_payload_bytes` bounds every frame of every link and is the same on all workers; a link
  // keeps a few buffers of that size. `inbox` must outlive the mesh.
  Mesh(std::shared_ptr<Device> device, WorkerId self, std::size_t max_payload_bytes, Inbox& inbox,
       OnLinkBroken on_link_broken);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Makes a fresh end for each peer, closing an old link to it first, and returns the address that
  // the peer must be given. A process without free file descriptors ends here.
  std::map<WorkerId, std::string> Open(const std::vector<WorkerId>& peers);

  // Connects opened links, all at once, to the ends their peers opened for this worker; blocks
  // until each is connected or failed. Links already connected are not touched. Each end of a link
  // must Connect. Errors: kAborted (Abort's text), kUnavailable naming the peers that refused, went
  // away or did not come within a minute; the links that failed are to be opened anew, the others
  // live.
  Status Connect(const std::map<WorkerId, std::string>& remote_addresses);

  // Makes a Connect, now or before the next Open, return `why` at once; links that are connected
  // stay. `why` is kAborted.
  void Abort(Status why);

  // Drops the link without a call of on_link_broken; frames not yet sent are lost. No link:
  // nothing.
  void Close(WorkerId peer);

  // Queues `frame`; never blocks. Frames to one peer arrive in the order of Send. `hook` is for
  // fault injection. Error: kUnavailable when there is no connected link to `to`.
  Status Send(WorkerId to, OutgoingFrame frame, SendHook hook = {});

  // The peers with a connected, unbroken link, in order.
  std::vector<WorkerId> links() const;

  MeshCounters counters() const;

  // Is there a link to `peer`, connected or still to be?
  bool Has(WorkerId peer) const { return Find(peer) != nullptr; }

  // Cuts a link as a network failure would: both ends see it break, or fail to connect it.
  void CutForTest(WorkerId peer);

 private:
  const std::shared_ptr<Device> device_;
  const WorkerId self_;
  const std::size_t max_payload_bytes_;
  Inbox& inbox_;
  const OnLinkBroken on_link_broken_;

  std::shared_ptr<PeerLink> Find(WorkerId peer) const;

  mutable std::mutex mutex_;
  std::condition_variable settled_;  // a link became connected or failed
  Status abort_;
  std::map<WorkerId, std::shared_ptr<PeerLink>> links_;
  MeshCounters closed_links_;  // totals of links that are gone
};

}  // namespace recycle

#endif  // RECYCLE_COMM_MESH_H_
