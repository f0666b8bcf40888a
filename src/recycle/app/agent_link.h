// An agent's line to whichever coordinator leads: everything it has said is said again to each new
// leader, so no death is forgotten with the coordinator that heard of it.
//
//   AgentLink link(folder, config, AgentHello{.agent = 0, .pid = getpid()});
//   link.Send(ExecutorExited{worker, pid, wait_status});
//   link.FollowLeader();   // every now and then
//
// A thread of its own connects. Thread-safe. Create it after fork.
#ifndef RECYCLE_APP_AGENT_LINK_H_
#define RECYCLE_APP_AGENT_LINK_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/protocol/messages.h"
#include "recycle/rpc/agent_client.h"

namespace recycle {

class AgentLink {
 public:
  // `on_start` is called, in the link's thread, for each command of a coordinator.
  AgentLink(const RunFolder& folder, const JobConfig& config, const AgentHello& hello,
            std::function<void(const StartExecutor&)> on_start);
  ~AgentLink();  // ends the stream
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  // Never blocks on the network.
  void Send(const AgentMessage& message);

  // Looks who leads, and gives up the stream to a coordinator from which another one has taken
  // over.
  void FollowLeader();

  // By the last look: is the leader's address gone, which was there?
  bool is_job_over() const;
  // How long it has had no stream; 0 with one.
  Duration alone_for() const;

 private:
  void Loop();
  // One look for the leader, and an attempt to connect. Error: there is none, or the token cannot
  // be read.
  StatusOr<std::shared_ptr<AgentClient>> TryConnect();

  const RunFolder folder_;
  const JobConfig config_;
  const AgentHello hello_;
  const std::function<void(const StartExecutor&)> on_start_;
  mutable std::mutex mutex_;
  std::condition_variable closing_;
  bool is_job_over_ = false;
  TimePoint alone_since_;
  std::shared_ptr<AgentClient> client_;
  std::int64_t term_ = 0;
  std::vector<AgentMessage> said_;  // few: deaths
  bool closed_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace recycle

#endif  // RECYCLE_APP_AGENT_LINK_H_
