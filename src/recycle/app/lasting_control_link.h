// An executor's line to whichever coordinator leads. When the stream ends, or another coordinator
// has taken over, it connects to the new leader and says again what that one has to know
// (protocol/kept_messages.h); training goes on meanwhile, also while a coordinator refuses the
// token: it is read anew before every attempt.
//
//   LastingControlLink link(folder, config, std::nullopt);
//   RC_RETURN_IF_ERROR(link.Connect(std::chrono::seconds(10)));
//   RunExecutor(options, link, SystemClock());
//
// Thread-safe as ControlLink says. Create it after fork.
#ifndef RECYCLE_APP_LASTING_CONTROL_LINK_H_
#define RECYCLE_APP_LASTING_CONTROL_LINK_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "recycle/app/job_config.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/executor/control_link.h"
#include "recycle/protocol/kept_messages.h"
#include "recycle/rpc/control_client.h"

namespace recycle {

class LastingControlLink final : public ControlLink {
 public:
  // `patience`: how long it looks for a leader before it gives up; absent: for ever (its agent's
  // end ends this process).
  LastingControlLink(const RunFolder& folder, const JobConfig& config,
                     std::optional<Duration> patience)
      : folder_(folder), config_(config), patience_(patience) {}

  // Error: kUnavailable if nobody leads within `timeout` (absent: waits for ever).
  Status Connect(std::optional<Duration> timeout);

  // While nobody leads, what is not kept is lost.
  void Send(const ExecutorMessage& message) override;
  // kUnavailable once closed, or if no leader is found; kUnauthenticated if the leader refuses it
  // and its patience is limited.
  StatusOr<CoordinatorMessage> Receive() override;
  void Close() override;

 private:
  // One look for the leader, and an attempt to connect. True if connected, or closed meanwhile.
  bool TryConnect(Duration timeout);
  // Has another coordinator taken over from the one that this is connected to? Then that stream is
  // given up: its other end may be frozen.
  void FollowLeader();
  // The leader has refused the stream: no use in trying again at once.
  void PauseRefused(const Status& why);
  // Forgets the stream that has ended.
  void Drop(const std::shared_ptr<ControlClient>& client);

  const RunFolder folder_;
  const JobConfig config_;
  const std::optional<Duration> patience_;
  std::mutex mutex_;
  std::condition_variable closing_;
  std::shared_ptr<ControlClient> client_;  // nullptr: nobody leads, as far as is known
  std::int64_t term_ = 0;                  // of the newest leader this was connected to
  KeptMessages kept_;
  bool closed_ = false;
};

}  // namespace recycle

#endif  // RECYCLE_APP_LASTING_CONTROL_LINK_H_
