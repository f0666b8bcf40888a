// Faults for tests and demonstrations: the grammar of --inject and of the config's `inject` list.
//
//   <what> <target> at <point>[ of iteration <n>][ on <action>][ for <s>s][ and rejoin after <s>s]
//
//   "kill 1:1 at F of iteration 20"     "stop 0:1 at all-reduce of iteration 3 for 2s"
//   "slow x2.5 1:0 at F of iteration 5" "drop link 0:0-1:1 at send of iteration 4"
//   "diskfull coordinator at step of iteration 2" "kill 2:0 at W of iteration 3 and rejoin after
//   2s"
//
// Iterations count from 1. Pure.
#ifndef RECYCLE_PROTOCOL_FAULT_H_
#define RECYCLE_PROTOCOL_FAULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/action.h"

namespace recycle {

enum class FaultKind : std::uint8_t {
  kKill,      // SIGKILL by the process to itself
  kStop,      // SIGSTOP; with `for`, SIGCONT after that time
  kSlow,      // every action takes `factor` times as long from then on
  kDrop,      // the link breaks as by a network
  kCorrupt,   // a bit of the worker's parameters flips
  kDiskFull,  // every write of the process to a file fails from then on
};

enum class FaultPoint : std::uint8_t {
  kStart,  // before the worker says hello
  kForward,
  kBackwardInput,
  kBackwardWeight,
  kSend,
  kRecv,
  kAllReduce,
  kCommit,
  kStep,
  kValidate,
  kRegroup,    // between Prepare and Resume
  kHeartbeat,  // in the heartbeat thread
  kSnapshot,   // a worker has copied half of its state into a snapshot
  // Of a checkpoint, in the order of a save. The first two lie in the thread that writes a worker's
  // shard: half written, and before it gets its name; the others in the coordinator's commit:
  // before the manifest, the marker, `latest`, and the removal of older checkpoints.
  kCheckpoint,
  kCheckpointRename,
  kCheckpointManifest,
  kCheckpointMarker,
  kCheckpointLatest,
  kCheckpointPrune,
  kJoin,   // a joiner has received half of its state
  kStore,  // the coordinator has stored a generation and told nobody
};

enum class TargetKind : std::uint8_t { kWorker, kAgent, kCoordinator, kStore, kStage, kAll, kLink };

struct FaultTarget {
  TargetKind kind = TargetKind::kWorker;
  WorkerId worker;         // kWorker; one end for kLink
  WorkerId other;          // the other end for kLink
  std::int32_t index = 0;  // agent number or stage number
  bool operator==(const FaultTarget&) const = default;
};

struct Fault {
  FaultKind what = FaultKind::kKill;
  double factor = 1.0;  // kSlow
  FaultTarget target;
  FaultPoint point = FaultPoint::kForward;
  std::optional<std::int32_t> iteration;  // 1-based as written; absent: the first time
  std::optional<Action> action;
  std::optional<double> for_seconds;
  std::optional<double> rejoin_after_seconds;  // its agent starts the worker again then
  bool operator==(const Fault&) const = default;
};

std::string ToString(const Fault& fault);
// The parts as --inject writes them: "kill", "stop", ...; "1:1", "agent:0", "stage 2", "all",
// "coordinator", "link 0:0-1:0"; "F", "all-reduce", ...
std::string_view WhatText(FaultKind kind);
std::string TargetText(const FaultTarget& target);
std::string_view PointText(FaultPoint point);

// Error: kInvalidArgument naming the word that does not fit, what may stand there and an example.
StatusOr<Fault> ParseFault(std::string_view text);

// Checks that targets exist in a job of `data` x `pipeline` workers and `agents` agents, and that
// the iteration is within 1..`iterations`.
Status CheckFault(const Fault& fault, int data, int pipeline, int agents, int iterations);

// Is it one of the points of a checkpoint? There a fault of "all" is one deed: whoever gets there
// first kills the whole job, launcher included.
bool IsOfCheckpoint(FaultPoint point);
// Is it one of those in the coordinator's commit?
bool IsOfCommit(FaultPoint point);

// Does the coordinator see to it: is it the fault's target, or its store?
bool IsOfCoordinator(const Fault& fault);

// Does `fault` hit worker `worker` (directly, by its stage, by link end, or by "all")?
bool Hits(const Fault& fault, WorkerId worker);

}  // namespace recycle

#endif  // RECYCLE_PROTOCOL_FAULT_H_
