// What goes into and what comes out of the coordinator's core: events, effects and the membership
// record. Plain values.
#ifndef RECYCLE_COORDINATOR_EVENTS_H_
#define RECYCLE_COORDINATOR_EVENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// --- events ------------------------------------------------------------------------------------

struct FromExecutor {
  WorkerId worker;
  ExecutorMessage message;
};
// The control stream of a worker ended (it died, or its network did).
struct StreamClosed {
  WorkerId worker;
};
struct FromAgent {
  AgentMessage message;
  std::int32_t agent = 0;  // whose stream it came on
};
// An agent's stream ended: its executors die with it; waitpid will not come.
struct AgentLost {
  std::int32_t agent = 0;
  std::vector<WorkerId> workers;
};
// Let time pass: silence, ask and join time-outs are looked at. Send one when NextDeadline() is
// due.
struct TimePassed {};
// SIGTERM or SIGINT at the launcher: finish the iteration and stop.
struct StopWanted {};
// The store has made `generation`'s record durable.
struct RecordStored {
  Generation generation;
};

// `recycle drain`: the worker leaves after its iteration.
struct DrainWanted {
  WorkerId worker;
};

// The answer to ChooseCheckpoint.
struct CheckpointChosen {
  std::optional<std::int32_t> version;  // steps made; absent: there is none
  std::string why;                      // there is none
};

using Event = std::variant<FromExecutor, StreamClosed, FromAgent, AgentLost, TimePassed, StopWanted,
                           RecordStored, DrainWanted, CheckpointChosen>;

// --- effects -----------------------------------------------------------------------------------

struct SendTo {
  WorkerId worker;
  CoordinatorMessage message;
};

// Why a worker counts as lost; the word stands in events.jsonl.
enum class LossCause : std::uint8_t {
  kLink,
  kProcess,
  kWords,
  kNotice,
  kSilence,
  kProgress,
  kCorruption
};
std::string_view CauseText(LossCause cause);

struct LostWorker {
  WorkerId worker;
  LossCause cause = LossCause::kProcess;
  std::string detected_by;     // "k:i", or "k:i k:i" of several, or "agent 0" or "coordinator"
  TimePoint first_signal;      // when the first sign of it arrived
  std::int32_t iteration = 0;  // 0-based, the last known
};

// The membership record. It must be stored (compare-and-set on the record before it) before any
// Prepare of it is sent: the core waits for RecordStored. It says all that the next coordinator
// needs.
struct GenerationRecord {
  Generation generation;
  std::vector<WorkerId> members;
  std::map<WorkerId, std::int32_t> pids;  // the members' processes
  std::vector<LostWorker> lost;           // since the generation before
  // Members that come back in this generation or came in one that not all have resumed, and their
  // donors.
  std::map<WorkerId, WorkerId> returning;
  // Links between live workers that broke and that not all have resumed with since.
  std::vector<std::pair<WorkerId, WorkerId>> relinked;
  std::optional<std::int32_t> restore;  // everybody takes its state of this version,
  bool from_memory = false;             // from the snapshot, else from the checkpoint
  // What F, I and W take, one per stage, where plans are made with other costs than at the start.
  std::vector<MeasuredCosts> measured = {};
  // Workers that have left their places for others, and have not said hello there.
  std::map<WorkerId, WorkerId> moving = {};
  std::string reason;  // a sentence
};
struct StoreRecord {
  GenerationRecord record;
};

// What a lost worker had done and was to do of an iteration, all of which runs again or runs
// elsewhere. Which of it was completed only its trace tells.
struct LostShare {
  WorkerId worker;
  std::int32_t iteration = 0;   // 0-based
  std::vector<Action> actions;  // F, I, W, B
  // Others are still at the iteration before: counts only if the worker had begun this one.
  bool ahead = false;
};

// Everybody has resumed the generation: for events.jsonl and the terminal.
struct AnnounceResumed {
  Generation generation;
  Duration since_decision{};
  std::int32_t iteration = 0;           // the first that somebody has not stepped
  std::vector<LostShare> lost_shares;   // of those lost since everybody resumed last
  std::map<WorkerId, int> rerouted_to;  // their micro-batches, by who runs them now
  int regenerated_actions = 0;          // F and I that only rebuild lost boundary tensors
};
struct AnnounceIteration {
  IterationDone done;
  int workers_live = 0;
  std::map<int, std::int64_t> peak_bytes;  // per stage
};
struct AnnounceJoined {
  WorkerId worker;
  std::int32_t pid = 0;
};
struct AnnouncePlan {  // a plan of a generation, to be written to the run folder
  Generation generation;
  std::optional<std::int32_t> iteration;  // of the rest of this one (0-based); absent: whole ones
  std::shared_ptr<const Plan> plan;
};
struct AnnounceLinkRestored {
  WorkerId a;
  WorkerId b;
};
struct AnnounceFault {
  WorkerId worker;
  FaultReport report;
};
// A place that comes back.
struct AnnounceRejoin {
  enum class What : std::uint8_t { kStarted, kRejoined, kAbandoned };
  What what = What::kStarted;
  WorkerId worker;
  WorkerId donor;
  std::int64_t copy_bytes = 0;  // kRejoined only, as the next
  Duration copy_time{};
  std::string reason;  // kAbandoned: why
};
// A place that died too often: its agent does not start it any more.
struct AnnounceParked {
  WorkerId worker;
  std::int32_t deaths = 0;
};
// A live worker leaves its place for a vacant one of another stage.
struct AnnounceRoleChange {
  WorkerId from;
  WorkerId to;
  Duration gain{};  // time, as expected, as the next
  Duration cost{};
  std::string reason;  // the arithmetic
};
// Something that people should know, a wish that is not granted for one.
struct AnnounceWarning {
  std::string text;
};
// A live worker's share of a checkpoint.
struct AnnounceShard {
  ShardWritten shard;
};
// The job has to go back: to which checkpoint? Asked for the event CheckpointChosen.
struct ChooseCheckpoint {
  std::optional<std::int32_t> failed;  // this one could not be loaded, just now
  std::string reason;
};
// A place needs a new process: its stage has no workers left, or its state was wrong.
struct StartWorker {
  WorkerId worker;
};
// Everybody has the state of a checkpoint or a snapshot and goes on from there.
struct AnnounceRestored {
  std::int32_t version = 0;          // steps made
  std::int32_t lost_iterations = 0;  // done before, and to be done again
  bool from_memory = false;          // a snapshot
};
// A set of snapshots counts.
struct AnnounceSnapshot {
  std::int32_t version = 0;  // steps made
  std::int64_t bytes = 0;    // of all stages, each once
  Duration time{};           // since the first sign of it
};
// A stage has returned to the bits before its step of `verdict.iteration` and made it again, or
// gone without.
struct AnnounceRollback {
  StageId stage;
  Verdict verdict;
};
// A stage has made its sums of `quantum.iteration` again, with that quantum: a gradient had not
// fit.
struct AnnounceRedo {
  Quantum quantum;
};
// A worker computes more slowly than its peers, or does so no more.
struct AnnounceStraggler {
  WorkerId worker;
  double score = 1.0;  // times as long as its peers
  bool is_slow = false;
};
// Workers have measured what their actions cost, and the plan's costs were compared with that.
struct AnnounceCosts {
  CostProfile planned;   // those of the running plan
  CostProfile measured;  // on the same scale
  double deviation = 0;  // how far off the planned ones are, at most: 0.1 is a tenth
  // Of the running plan and of one made for the measured costs, by these; absent: it was not made.
  std::optional<Ticks> period_before = std::nullopt;
  std::optional<Ticks> period_after = std::nullopt;
  bool replanned = false;   // it runs from the next generation on
  std::string reason = "";  // why, or why not: a clause about "the measured costs"
};
// An iteration without a step: its gradient was not finite.
struct AnnounceSkippedStep {
  std::int32_t iteration = 0;  // 0-based
  std::int32_t in_a_row = 0;   // up to this one
};
// The job is over.
struct EndJob {
  enum class How : std::uint8_t {
    kDone,
    kStopped,
    kStageLost,
    kJoinTimeout,
    kDiverged,  // too many iterations without a step, or peers with different states
    kFailed,
  };
  How how = How::kDone;
  std::string reason;
  std::string parameters_sha256;  // over all parameters in canonical order; kDone and kStopped
  std::int32_t iterations = 0;
};

using Effect = std::variant<SendTo, StoreRecord, AnnounceResumed, AnnounceIteration, AnnounceJoined,
                            AnnouncePlan, AnnounceLinkRestored, AnnounceFault, AnnounceRejoin,
                            AnnounceRoleChange, AnnounceParked, AnnounceWarning, AnnounceShard,
                            ChooseCheckpoint, StartWorker, AnnounceRestored, AnnounceSnapshot,
                            AnnounceRollback, AnnounceRedo, AnnounceSkippedStep, AnnounceStraggler,
                            AnnounceCosts, EndJob>;

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_EVENTS_H_
