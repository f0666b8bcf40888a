// Nobody gets on, and everybody lives: a network that swallows messages and says nothing of it, or
// a message that is lost. Found out when for long no worker has finished an action and no iteration
// has ended; then all links are made anew, and the logs send again what is missing.
//
// How long: 20 mean iterations and 5 failure timeouts. Before two iterations have ended nobody
// knows how long one takes here, and nothing is found.
//
// Not thread-safe; part of the coordinator's core.
// Source: "Who notices" of docs/RECOVERY.md.
#ifndef RECYCLE_COORDINATOR_STANDSTILL_H_
#define RECYCLE_COORDINATOR_STANDSTILL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"

namespace recycle {

class Standstill {
 public:
  explicit Standstill(Duration failure_timeout) : least_(kFailureTimeouts * failure_timeout) {}

  void OnHeartbeat(WorkerId worker, std::int64_t actions_done, TimePoint now);
  void OnIteration(TimePoint now);
  // Everybody has resumed: what came before counts neither as progress nor as an iteration's time.
  void OnResumed(TimePoint now);
  // Nobody could be heard for so long.
  void ForgiveGap(Duration gap);

  // How long nobody has got on, if that is too long; then the time counts from `now` on. Called
  // while workers train.
  std::optional<Duration> TakeFinding(TimePoint now);

 private:
  static constexpr int kIterations = 20;
  static constexpr int kFailureTimeouts = 5;
  static constexpr std::size_t kRemembered = 16;  // iterations

  const Duration least_;
  std::map<WorkerId, std::int64_t> actions_done_;
  std::deque<Duration> iterations_;  // how long the last ones took
  std::optional<TimePoint> iteration_ended_;
  TimePoint progress_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_STANDSTILL_H_
