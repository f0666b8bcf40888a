#include "recycle/app/agent_link.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "recycle/app/job_security.h"
#include "recycle/app/leader_address.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

constexpr std::chrono::milliseconds kLookInterval{20};
constexpr std::chrono::milliseconds kAttempt{500};
// After the coordinator has refused the token, or the file cannot be read.
constexpr std::chrono::milliseconds kAgentRefusedPause{1000};

}  // namespace

AgentLink::AgentLink(const RunFolder& folder, const JobConfig& config, const AgentHello& hello,
                     std::function<void(const StartExecutor&)> on_start)
    : folder_(folder),
      config_(config),
      hello_(hello),
      on_start_(std::move(on_start)),
      alone_since_(SystemClock().Now()),
      thread_([this] { Loop(); }) {}

AgentLink::~AgentLink() {
  std::shared_ptr<AgentClient> client;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    client = client_;
  }
  closing_.notify_all();
  if (client != nullptr) client->Close();
  thread_.join();
}

void AgentLink::Send(const AgentMessage& message) {
  const std::lock_guard lock(mutex_);
  said_.push_back(message);
  if (client_ != nullptr) client_->Send(message);
}

void AgentLink::FollowLeader() {
  const StatusOr<LeaderAddress> leader = ReadLeaderAddress(folder_);
  const std::lock_guard lock(mutex_);
  std::error_code unknown;  // a file system that does not answer says nothing of the job
  is_job_over_ = term_ > 0 && !std::filesystem::exists(folder_.Address(), unknown) && !unknown;
  if (client_ != nullptr && leader.ok() && leader->term > term_) client_->Cancel();
}

bool AgentLink::is_job_over() const {
  const std::lock_guard lock(mutex_);
  return is_job_over_;
}

Duration AgentLink::alone_for() const {
  const std::lock_guard lock(mutex_);
  return client_ != nullptr ? Duration::zero() : SystemClock().Now() - alone_since_;
}

void AgentLink::Loop() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    lock.unlock();
    StatusOr<std::shared_ptr<AgentClient>> client = TryConnect();
    const Status end = client.ok() ? (*client)->Serve(on_start_) : client.status();
    lock.lock();
    std::shared_ptr<AgentClient> ended = std::exchange(client_, nullptr);
    if (ended != nullptr) alone_since_ = SystemClock().Now();
    lock.unlock();
    client = end;
    ended.reset();  // takes a moment
    const bool refused = !absl::IsUnavailable(end);
    if (refused) LogWarning("{}; trying again", std::string(end.message()));
    lock.lock();
    closing_.wait_for(lock, refused ? kAgentRefusedPause : kLookInterval,
                      [this] { return closed_; });
  }
}

StatusOr<std::shared_ptr<AgentClient>> AgentLink::TryConnect() {
  const StatusOr<LeaderAddress> leader = ReadLeaderAddress(folder_);
  if (!leader.ok() || leader->term < term_) return absl::UnavailableError("nobody leads");
  RC_ASSIGN_OR_RETURN(const RpcSecurity security, LoadSecurity(config_));
  RC_ASSIGN_OR_RETURN(std::unique_ptr<AgentClient> client,
                      AgentClient::Connect(leader->address, security, hello_, kAttempt));
  const std::lock_guard lock(mutex_);
  if (closed_) return absl::UnavailableError("closed");
  client_ = std::move(client);
  term_ = leader->term;
  for (const AgentMessage& message : said_) client_->Send(message);
  LogInfo("connected to the coordinator of term {} at {}", leader->term, leader->address);
  return client_;
}

}  // namespace recycle
