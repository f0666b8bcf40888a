// The coordinator's brain: a pure function from (state, event, now) to (state, effects, reason).
// It knows no thread, no clock, no network, no tensor: app/ feeds it events and carries out effects.
//
// Rules of detection (docs/RECOVERY.md): a link report is a suspicion, not a verdict. Dead at once:
// waitpid, or a suspicion plus a closed control stream or a second reporter. A lone suspicion asks the
// accused, which has 50 ms to answer: then the link is made anew. Silence longer than the failure
// timeout is death. A link that broke three times within 60 s removes the worker with more bad links.
//
//   Coordinator coordinator(options, std::move(make_plan));
//   std::vector<Effect> effects = coordinator.Step(event, now);
//
// Not thread-safe: one thread owns it.
#ifndef RECYCLE_COORDINATOR_COORDINATOR_H_
#define RECYCLE_COORDINATOR_COORDINATOR_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct CoordinatorOptions {
  Parallelism parallel;
  int micro_batches = 1;
  int iterations = 1;
  Duration failure_timeout = std::chrono::seconds(2);  // silence that counts as death
  Duration ask_timeout = std::chrono::milliseconds(50);
  Duration join_timeout = std::chrono::seconds(30);    // for all workers to say hello
  int link_faults_allowed = 2;                         // the next one within the window removes
  Duration link_fault_window = std::chrono::seconds(60);

  Status Validate() const;
};

// A plan for the given dead places; handed in by app so that the core knows no planner.
using MakePlanFunction = std::function<StatusOr<Plan>(const std::vector<WorkerId>& failed)>;

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
};
// An agent's stream ended: its executors die with it; waitpid will not come.
struct AgentLost {
  std::int32_t agent = 0;
  std::vector<WorkerId> workers;
};
// Let time pass: silence, ask and join time-outs are looked at. Send one when NextDeadline() is due.
struct TimePassed {};
// SIGTERM or SIGINT at the launcher: finish the iteration and stop.
struct StopWanted {};
// The store has made `generation`'s record durable.
struct RecordStored {
  Generation generation;
};

using Event = std::variant<FromExecutor, StreamClosed, FromAgent, AgentLost, TimePassed, StopWanted,
                           RecordStored>;

// --- effects -----------------------------------------------------------------------------------

struct SendTo {
  WorkerId worker;
  CoordinatorMessage message;
};

// Why a worker counts as lost; the word stands in events.jsonl.
enum class LossCause : std::uint8_t { kLink, kProcess, kWords, kNotice, kSilence, kProgress };
std::string_view CauseText(LossCause cause);

struct LostWorker {
  WorkerId worker;
  LossCause cause = LossCause::kProcess;
  std::string detected_by;       // "k:i" or "agent 0" or "coordinator"
  TimePoint first_signal;        // when the first sign of it arrived
  std::int32_t iteration = 0;    // 0-based, the last known
};

// The membership record. It must be stored (compare-and-set on generation - 1) before any Prepare of
// it is sent: the core waits for RecordStored.
struct GenerationRecord {
  Generation generation;
  std::vector<WorkerId> members;
  std::vector<LostWorker> lost;   // since the generation before
  std::vector<std::pair<WorkerId, WorkerId>> relinked;
  std::string reason;             // a sentence
};
struct StoreRecord {
  GenerationRecord record;
};

// Everybody has resumed the generation: for events.jsonl and the terminal.
struct AnnounceResumed {
  Generation generation;
  Duration since_decision{};
  std::int32_t iteration = 0;
  int lost_iterations = 0;      // iterations that started again (0 or 1)
  int replayed_actions = 0;     // completed by the dead in the open iteration and run again (B = 2)
  int rerouted_actions = 0;     // the other actions of the dead in it
  std::map<WorkerId, int> rerouted_micro_batches;  // per receiving peer, for the newly dead stages
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
struct AnnouncePlan {  // the plan of a generation, to be written to the run folder
  Generation generation;
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
// The job is over.
struct EndJob {
  enum class How : std::uint8_t { kDone, kStopped, kStageLost, kJoinTimeout, kFailed };
  How how = How::kDone;
  std::string reason;
  std::string parameters_sha256;  // over all parameters in canonical order; kDone and kStopped
  std::int32_t iterations = 0;
};

using Effect = std::variant<SendTo, StoreRecord, AnnounceResumed, AnnounceIteration, AnnounceJoined,
                            AnnouncePlan, AnnounceLinkRestored, AnnounceFault, EndJob>;

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, MakePlanFunction make_plan,
              std::vector<std::string> canonical_parameters);

  std::vector<Effect> Step(const Event& event, TimePoint now);

  // When TimePassed should be sent at the latest; absent: nothing is pending.
  std::optional<TimePoint> NextDeadline() const;

  // For `recycle status`.
  struct View {
    Generation generation;
    std::vector<WorkerId> live;
    std::int32_t iteration = 0;  // iterations done
    std::optional<double> loss;
    std::string phase;  // "joining", "regrouping", "training", "finishing", "over"
    std::string reason; // of the running generation
  };
  View view() const;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_COORDINATOR_H_
