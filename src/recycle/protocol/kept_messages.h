// What an executor has said that the next coordinator may have to hear again: coordinators die, and
// what one had only in its memory dies with it. Everything an executor sends and receives passes by
// here; after a change of coordinators Again() is said first.
//
//   kept.OnSend(message); kept.OnReceive(message);
//   for (const ExecutorMessage& message : kept.Again()) stream.Send(message);
//
// Kept are: who this is, how far it has come and which snapshots it keeps (Hello), results of
// iterations until they are Recorded, broken links until a Prepare has them made anew, measured
// costs, and Finished. Nothing else matters: a new coordinator begins a generation, and the ledgers
// say the rest.
//
// Pure; not thread-safe.
#ifndef RECYCLE_PROTOCOL_KEPT_MESSAGES_H_
#define RECYCLE_PROTOCOL_KEPT_MESSAGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class KeptMessages {
 public:
  void OnSend(const ExecutorMessage& message);
  void OnReceive(const CoordinatorMessage& message);

  // Hello comes first; empty if none was ever sent.
  std::vector<ExecutorMessage> Again() const;

 private:
  std::optional<Hello> hello_;
  std::map<WorkerId, LinkBroken> broken_links_;       // by peer
  std::map<std::int32_t, IterationDone> unrecorded_;  // by iteration
  std::optional<MeasuredCosts> measured_;
  std::optional<Finished> finished_;
  // By the newest Prepare: once all resume, other snapshots are void.
  static constexpr std::int32_t kNoSnapshot = -1;
  std::optional<std::int32_t> goes_back_to_;
};

}  // namespace recycle

#endif  // RECYCLE_PROTOCOL_KEPT_MESSAGES_H_
