#include "recycle/app/lasting_control_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "recycle/app/job_security.h"
#include "recycle/app/leader_address.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

constexpr std::chrono::milliseconds kLeaderLookInterval{20};
// Attempts are short: the address may be that of a leader that has died, and the next one waits for
// its workers.
constexpr std::chrono::milliseconds kFirstAttempt{100};
constexpr std::chrono::milliseconds kLongestAttempt{400};
constexpr std::chrono::seconds kRefusedPause{1};

}  // namespace

Status LastingControlLink::Connect(std::optional<Duration> timeout) {
  const TimePoint began = SystemClock().Now();
  for (Duration attempt = kFirstAttempt; !TryConnect(attempt);
       attempt = std::min<Duration>(attempt * 2, kLongestAttempt)) {
    if (timeout && SystemClock().Now() - began >= *timeout) {
      return absl::UnavailableError(
          fmt::format("no coordinator leads the job in '{}' since {:.0f} s", folder_.root(),
                      ToMilliseconds(*timeout) / 1000));
    }
    std::unique_lock lock(mutex_);
    closing_.wait_for(lock, kLeaderLookInterval, [this] { return closed_; });
  }
  return OkStatus();
}

bool LastingControlLink::TryConnect(Duration timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return true;
  }
  const StatusOr<LeaderAddress> leader = ReadLeaderAddress(folder_);
  if (!leader.ok() || leader->term < term_) return false;
  const StatusOr<RpcSecurity> security = LoadSecurity(config_);
  if (!security.ok()) {
    PauseRefused(security.status());
    return false;
  }
  StatusOr<std::unique_ptr<ControlClient>> client =
      ControlClient::Connect(leader->address, *security, timeout);
  if (!client.ok()) return false;
  const std::lock_guard lock(mutex_);
  client_ = *std::move(client);
  term_ = leader->term;
  for (const ExecutorMessage& message : kept_.Again()) client_->Send(message);
  LogInfo("connected to the coordinator of term {} at {}", leader->term, leader->address);
  return true;
}

void LastingControlLink::Send(const ExecutorMessage& message) {
  {
    const std::lock_guard lock(mutex_);
    kept_.OnSend(message);
    if (client_ != nullptr) client_->Send(message);
  }
  if (std::holds_alternative<Heartbeat>(message)) FollowLeader();
}

void LastingControlLink::FollowLeader() {
  const StatusOr<LeaderAddress> leader = ReadLeaderAddress(folder_);
  if (!leader.ok()) return;
  const std::lock_guard lock(mutex_);
  if (client_ != nullptr && leader->term > term_) client_->Cancel();
}

StatusOr<CoordinatorMessage> LastingControlLink::Receive() {
  for (;;) {
    std::shared_ptr<ControlClient> client;
    {
      const std::lock_guard lock(mutex_);
      client = client_;
    }
    if (client != nullptr) {
      StatusOr<CoordinatorMessage> message = client->Receive();
      const bool refused = absl::IsUnauthenticated(message.status()) && !patience_;
      if (refused) PauseRefused(message.status());
      const std::lock_guard lock(mutex_);
      if (message.ok()) kept_.OnReceive(*message);
      const bool try_again = refused || absl::IsUnavailable(message.status());
      if (closed_ || !try_again) return message;
    }
    Drop(client);
    RC_RETURN_IF_ERROR(Connect(patience_));
    const std::lock_guard lock(mutex_);
    if (closed_) return absl::UnavailableError("the control link is closed");
  }
}

void LastingControlLink::PauseRefused(const Status& why) {
  LogWarning("{}; trying again", std::string(why.message()));
  std::unique_lock lock(mutex_);
  closing_.wait_for(lock, kRefusedPause, [this] { return closed_; });
}

void LastingControlLink::Drop(const std::shared_ptr<ControlClient>& client) {
  if (client != nullptr) LogWarning("the coordinator of term {} is gone", term_);
  std::shared_ptr<ControlClient> ended;  // its end takes a moment: outside the lock
  const std::lock_guard lock(mutex_);
  ended = std::move(client_);
}

void LastingControlLink::Close() {
  std::shared_ptr<ControlClient> client;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    client = client_;
  }
  closing_.notify_all();
  if (client != nullptr) client->Close();
}

}  // namespace recycle
