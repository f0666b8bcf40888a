// What executors, agents and the coordinator say to one another: plain values, no wire format (rpc/
// turns them into protobuf). No message carries a tensor.
//
// Iterations are 0-based inside the program: version v = optimizer steps made = the iteration
// worked on. Run folder, plan files and --inject show v + 1.
//
// One life of a generation g: the coordinator stores its record, then sends Prepare; every live
// worker stops at the end of its running action, aborts its all-reduce, opens endpoints and answers
// with a Ledger (a promise: nothing of an older generation is accepted any more); when all have
// answered, Resume carries the endpoints, the rest of the open iterations, and the plan of those to
// come. Starting a job is the same round with g = 1.
#ifndef RECYCLE_PROTOCOL_MESSAGES_H_
#define RECYCLE_PROTOCOL_MESSAGES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/plan/plan.h"

namespace recycle {

// Identifies an endpoint that a worker listens on: a link to a peer, or its seat in a reduce group
// next to a neighbour. "link 0:1", "stage 2:1", "tied 2:1": purpose and the worker at the other
// end.
using EndpointName = std::string;
// Endpoint -> address bytes (opaque, made by comm).
using Endpoints = std::map<EndpointName, std::string>;

// --- executor -> coordinator -------------------------------------------------------------------

// The sender keeps the state that `stage` (its own, or another) had after `version` steps, in
// memory.
struct SnapshotHeld {
  StageId stage;
  std::int32_t version = 0;
  std::int64_t bytes = 0;
};

// First message on a control stream, of which there is one per coordinator that leads: a new leader
// learns from it who lives.
struct Hello {
  WorkerId worker;
  std::int32_t pid = 0;
  Generation generation;  // of the newest Ledger it has sent; 0: none, it was in no generation yet
  std::int32_t version = 0;  // steps made by then
  std::vector<SnapshotHeld> snapshots = {};
  // On what the bits of its results depend: build and kind of processor.
  std::string arithmetic = "";
};

// Sent by its own thread every heartbeat interval, whatever the training thread does.
struct Heartbeat {
  Generation generation;  // the running one
  std::int32_t version = 0;
  std::int64_t peak_bytes = 0;    // peak resident memory of the process
  std::int64_t actions_done = 0;  // F, I, W and B, since the process began
  // What the plan says the running one takes; 0: none runs, or it waits for an input.
  Ticks running_ticks = 0;
  double ns_per_tick = 0;  // measured over the last actions done; 0: not known yet
};

// A link to `peer` broke: a suspicion, not a verdict. Sent before anything is closed.
struct LinkBroken {
  Generation generation;
  WorkerId peer;
  std::string error;
};

// Answer to Ask; sent by the control thread, never by the training thread.
struct StillHere {
  std::int64_t nonce = 0;
};

// A boundary tensor of one iteration, named by who needs it: the input activation of F, or the
// output gradient of I, of a micro-batch at `stage`.
enum class BoundaryKind : std::uint8_t { kActivation, kGradient };
struct BoundaryTensor {
  BoundaryKind kind = BoundaryKind::kActivation;
  StageId stage;  // the receiver's
  MicroBatch micro_batch;
  auto operator<=>(const BoundaryTensor&) const = default;
};

// The last thing a worker has done for a micro-batch; an action counts at its end or not at all.
enum class Progress : std::uint8_t {
  kForward,  // F: the stash is kept
  kInput,    // I: what W needs is kept
  kWeight,   // W: the gradient is in the local sum
};

// What a worker keeps of an iteration that is not closed yet.
struct IterationLedger {
  std::int32_t iteration = 0;
  // Micro-batches that this worker has begun; regenerations are not among them.
  std::map<MicroBatch, Progress> progress;
  // Parts of the reduced gradient held whole, whether or not their commit round is over.
  bool holds_stage_part = false;
  bool holds_tied_part = false;       // of {first, last} with tied embeddings; false elsewhere
  std::vector<BoundaryTensor> inbox;  // received, not consumed
  std::vector<BoundaryTensor> log;    // made here, and kept: can be sent again
};

// How all stages end an iteration alike, once all of its gradient is reduced.
struct Verdict {
  std::int32_t iteration = 0;
  double squared_norm = 0;  // of the whole gradient; if it is not finite, nobody steps
  bool stop = false;        // a worker of the last stage was asked to stop
  // Stages had stepped before it was known, by another scale: they return to the bits before their
  // step and make it again, and all that has been done of the next iteration is void.
  bool corrects = false;
  bool operator==(const Verdict&) const = default;
};

// Reproducible sums: the workers of `stage` sum their gradients of `iteration` in multiples of
// 2^exponent, or coarser. They had begun with a finer one, and some gradient did not fit.
struct Quantum {
  StageId stage;
  std::int32_t iteration = 0;
  std::int32_t exponent = 0;
  bool operator==(const Quantum&) const = default;
};

// How long the sender's F, I and W take, in ns of computing: medians over its first iterations.
// Sent once per process.
struct MeasuredCosts {
  Ticks forward = 0;
  Ticks backward_input = 0;
  Ticks backward_weight = 0;
  bool operator==(const MeasuredCosts&) const = default;
};

// The answer to Prepare, and a promise: until Resume the worker runs nothing, accepts nothing of an
// older generation and discards nothing.
struct Ledger {
  Generation generation;     // the one prepared
  std::int32_t version = 0;  // steps made
  // The step that made `version` is final: its verdict was known before, or has not changed it.
  bool validated = true;
  // Those known here, ascending: of the iterations before `version`, and of `version` itself if
  // it was known before the step. Then every live worker holds the reduced gradient.
  std::vector<Verdict> verdicts;
  // Those of this stage that it has learnt from a Resume, ascending: iteration `version` and later.
  std::vector<Quantum> quanta = {};
  // A gradient here did not fit: this one would. What this worker has summed is void.
  std::optional<Quantum> outgrown = std::nullopt;
  // The validation pass after step `version` - 1 is due and not finished here.
  bool owes_validation = false;
  std::vector<IterationLedger> iterations;   // ascending; those that are not closed, at most two
  std::vector<std::int32_t> undo;            // iterations before whose step the exact bits are kept
  Endpoints endpoints;                       // what this worker listens on for the new generation
  std::vector<SnapshotHeld> snapshots = {};  // what it keeps now
};

// The first action of the new generation has started.
struct Resumed {
  Generation generation;
};

// Result of one micro-batch, from the last stage's reduction.
struct MicroBatchResult {
  MicroBatch micro_batch;
  PipelineId executed_by;  // pipeline of the last-stage worker that ran it
  double loss_sum = 0;     // nats, over its tokens
  std::int64_t tokens = 0;
};

// An iteration's step is made. Every live worker of the last stage sends it; the coordinator takes
// the first one per iteration.
struct IterationDone {
  Generation generation;
  std::int32_t iteration = 0;  // 0-based
  std::vector<MicroBatchResult> results;
  double grad_norm = 0;  // global, before clipping
  double lr = 0;
  std::optional<double> validation_loss;  // mean over validation tokens, when it was taken
  bool stop_agreed = false;               // all workers stop after this iteration
  // Iterations without a step, because their gradient was not finite, in a row up to this one.
  std::int32_t skipped_in_a_row = 0;
  // When the sender's step ended, on the machine's clock; of a paced worker, by its time.
  TimePoint stepped_at = {};
};

// The verdict on an iteration that stages have stepped already is another: a generation is due in
// which they correct it. The sender's ledger has the verdict.
struct Amend {
  Generation generation;  // running; in a newer one the ledgers say it
  Verdict verdict;
};

// A gradient of the sender's does not fit the sums: a generation is due in which its stage makes
// those of the iteration again. The sender's ledger says the same.
struct Outgrown {
  Generation generation;  // running; in a newer one the ledgers say it
  Quantum quantum;
};

// A fatal error the worker caught itself (memory, disk, NaN); it leaves right after.
struct LastWords {
  std::string message;
};

// A fault of --inject fired, or was left without having fired at the end of the job.
struct FaultReport {
  std::int32_t index = 0;  // into the job's list of faults
  bool fired = false;
  std::int32_t iteration = 0;  // 0-based; where it fired
};

// All iterations are done (or the agreed stop is reached). The worker stays until it gets Leave.
struct Finished {
  std::int32_t version = 0;
  std::map<std::string, std::string> parameter_sha256;  // canonical parameter name -> hex digest
  std::int64_t link_bytes = 0;  // sent over links to other workers so far (all-reduces apart)
};

// This worker's end of the copy `transfer` is open.
struct TransferOpened {
  std::int64_t transfer = 0;
  std::string address;  // bytes (opaque, made by comm)
};

// The copy cannot go on: its link broke.
struct TransferBroken {
  std::int64_t transfer = 0;
  std::string error;
};

// The joiner has every parameter and from now on follows the donor's steps.
struct CaughtUp {
  std::int64_t transfer = 0;
  std::int32_t version = 0;
  std::int64_t bytes = 0;         // of state, without the reduced gradients that followed
  std::int64_t microseconds = 0;  // since the two ends met
};

// Every so often, and after a rejoin: a hash of all parameters and moments of the worker's stage at
// `version`. Equal on all its peers, to the bit.
struct StateHash {
  std::int32_t version = 0;
  std::uint64_t hash = 0;
};

// The answer to Drain: the iteration is over, the worker does nothing more unless a Prepare lists
// it.
struct Departing {
  std::int32_t version = 0;
  std::optional<WorkerId> next = std::nullopt;  // as Drain had it
};

// A worker's share of the checkpoint of `version` is durable, or could not be written.
struct ShardWritten {
  Generation generation;     // by whose members the layers were dealt
  std::int32_t version = 0;  // steps made
  std::int32_t layer_begin = 0;
  std::int32_t layer_end = 0;
  std::string file;        // a name in the checkpoint's folder
  std::int64_t bytes = 0;  // of the file, as the next
  std::string sha256;
  std::string error;  // why there is none; "" = it is durable
};

// The answer to a Prepare with `restore` by a worker that could not take the state of that version:
// it waits for the next Prepare.
struct RestoreFailed {
  Generation generation;
  std::int32_t version = 0;
  std::string error;
};

using ExecutorMessage =
    std::variant<Hello, Heartbeat, LinkBroken, StillHere, Ledger, Resumed, IterationDone, LastWords,
                 FaultReport, Finished, TransferOpened, TransferBroken, CaughtUp, StateHash,
                 Departing, ShardWritten, RestoreFailed, SnapshotHeld, Amend, Outgrown,
                 MeasuredCosts>;

// --- coordinator -> executor -------------------------------------------------------------------

struct Prepare {
  Generation generation;
  std::vector<WorkerId> members;  // live workers, ascending
  std::vector<WorkerId> dead;     // those that left since the last generation
  // Links between live workers that must be made anew (they broke though both ends live).
  std::vector<std::pair<WorkerId, WorkerId>> relinked;
  std::string reason;
  // Everybody gives up what it has and takes its stage's state of this version: from the
  // checkpoint, or from the snapshot in its memory.
  std::optional<std::int32_t> restore;
  bool from_memory = false;
};

// `from` sends a boundary tensor out of its log once more.
struct Resend {
  BoundaryTensor tensor;
  WorkerId from;
  WorkerId to;
};

// The members of a committed unit that lack a part of the reduced gradient get it from `from`, in a
// round of the part's group that all members take part in: the stage's, or the tied one.
enum class ReducedPart : std::uint8_t { kStage, kTied };
struct HandOver {
  ReducedPart part = ReducedPart::kStage;
  StageId stage;  // of kStage; for kTied the stage of `from`
  WorkerId from;
};

// The rest of an iteration that some workers have begun or not stepped. `rest` has `initial` (what
// the live workers have done and keep), `committed` (stages that repeat no W; an F or I there
// regenerates a lost boundary tensor and is no progress), and per live worker what it still runs,
// step actions included: REDUCE_GRAD on open stages, and where a hand-over is due; VALIDATE for
// everyone; STEP for those who have not made it. A stage that is neither in `committed` nor stepped
// is open: whoever holds parts of its reduced gradient drops them.
struct OpenIteration {
  std::int32_t iteration = 0;
  std::shared_ptr<const Plan> rest;
  std::vector<Resend> resends;
  std::vector<HandOver> hand_overs;
};

struct Resume {
  Generation generation;
  std::vector<OpenIteration> open;  // ascending, consecutive, at most two
  std::int32_t next_iteration = 0;  // the first that runs whole, by `plan`
  // The validation pass after step `v` - 1, v the highest version: everyone runs it (again) as soon
  // as it has made that step, before anything else of iteration v.
  bool repeat_validation = false;
  // What any live worker knows, ascending. Whoever has not applied one does so first of all.
  std::vector<Verdict> verdicts;
  // What any live worker has learnt or wants, one per stage and iteration. Those of the stage who
  // stand at the iteration and have not learnt it give up what they have of it first of all.
  std::vector<Quantum> quanta = {};
  std::map<WorkerId, Endpoints> endpoints;  // by listening worker
  std::shared_ptr<const Plan> plan;         // for every iteration from `next_iteration` on
  // Somebody came back: everyone sends its StateHash at version `next_iteration` + 1.
  bool compare_state = false;
};

struct Ask {
  std::int64_t nonce = 0;
};

// The receiver is no longer a member: it exits with code 75.
struct Fence {
  std::string reason;
};

// Finish the iteration and stop: the workers agree on which one in the last stage's reduction.
struct StopRequest {};

// The job is over, or the worker has drained: exit with 0, or go on as worker `next`.
struct Leave {
  std::optional<WorkerId> next = std::nullopt;
};

// Instead of a running stage's state: what the donor keeps of snapshots of `stage`.
struct SnapshotOrder {
  StageId stage;
  // Only this one, at once; absent: the newest, and every later one.
  std::optional<std::int32_t> version = std::nullopt;
};

// The state of `donor`'s stage goes to `joiner`, which is no member yet, over a link of its own.
// Sent to both, twice: without addresses each opens its end and answers TransferOpened; with both
// addresses they connect, and the copy begins.
struct Transfer {
  std::int64_t transfer = 0;
  WorkerId donor;
  WorkerId joiner;
  std::string donor_end;
  std::string joiner_end;
  std::optional<SnapshotOrder> snapshot = std::nullopt;
};

// The copy is over, or given up: its link goes.
struct EndTransfer {
  std::int64_t transfer = 0;
};

// Finish the iteration, then answer Departing.
struct Drain {
  std::optional<WorkerId> next = std::nullopt;  // the place to take afterwards
};

// The results of iterations up to this one are recorded for good: nobody has to keep them.
struct Recorded {
  std::int32_t iteration = 0;  // 0-based
};

// Every stage's state of this version is kept by its workers and by one of another stage: older
// snapshots may go.
struct SnapshotCounts {
  std::int32_t version = 0;
};

using CoordinatorMessage = std::variant<Prepare, Resume, Ask, Fence, StopRequest, Leave, Transfer,
                                        EndTransfer, Drain, Recorded, SnapshotCounts>;

// --- agent -> coordinator ----------------------------------------------------------------------

struct AgentHello {
  std::int32_t agent = 0;
  std::int32_t pid = 0;
};

// waitpid's answer: proof of death.
struct ExecutorExited {
  WorkerId worker;
  std::int32_t pid = 0;
  std::int32_t wait_status = 0;
};

// The place has died too often in a row: its agent does not start it any more.
struct Parked {
  WorkerId worker;
  std::int32_t deaths = 0;
};

using AgentMessage = std::variant<AgentHello, ExecutorExited, Parked>;

// --- coordinator -> agent ----------------------------------------------------------------------

// Start the executor of this place, whatever resilience.respawn says: its stage has no live worker.
// A process that still has the place counts as lost and is ended.
struct StartExecutor {
  WorkerId worker;
};

}  // namespace recycle

#endif  // RECYCLE_PROTOCOL_MESSAGES_H_
