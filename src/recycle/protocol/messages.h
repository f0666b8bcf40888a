// What executors, agents and the coordinator say to one another: plain values, no wire format (rpc/
// turns them into protobuf). No message carries a tensor.
//
// Iterations are 0-based inside the program: version v = optimizer steps made = the iteration
// worked on. Run folder, plan files and --inject show v + 1.
//
// One life of a generation g: the coordinator stores its record, then sends Prepare; every live
// worker stops at the end of its running action, aborts its all-reduce, opens endpoints and answers
// with a Ledger (a promise: nothing of an older generation is accepted any more); when all have
// answered, Resume carries the endpoints, the point to go on from, and the plan. Starting a job is
// the same round with g = 1.
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

// First message on a control stream.
struct Hello {
  WorkerId worker;
  std::int32_t pid = 0;
};

// Sent by its own thread every heartbeat interval, whatever the training thread does.
struct Heartbeat {
  Generation generation;  // the running one
  std::int32_t version = 0;
  std::int64_t peak_bytes = 0;  // peak resident memory of the process
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

struct Ledger {
  Generation generation;  // the one prepared
  std::int32_t version = 0;
  bool holds_norm = false;  // has the global norm of iteration `version`
  Endpoints endpoints;      // what this worker listens on for the new generation
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

using ExecutorMessage = std::variant<Hello, Heartbeat, LinkBroken, StillHere, Ledger, Resumed,
                                     IterationDone, LastWords, FaultReport, Finished>;

// --- coordinator -> executor -------------------------------------------------------------------

struct Prepare {
  Generation generation;
  std::vector<WorkerId> members;  // live workers, ascending
  std::vector<WorkerId> dead;     // those that left since the last generation
  // Links between live workers that must be made anew (they broke though both ends live).
  std::vector<std::pair<WorkerId, WorkerId>> relinked;
  std::string reason;
};

struct Resume {
  Generation generation;
  std::int32_t iteration = 0;  // t: the least version of all members
  // Some survivor has the norm of t (or has stepped): all members finish step t from the reduced
  // gradients they hold. Otherwise t starts again from zeroed sums.
  bool finish_step = false;
  std::map<WorkerId, Endpoints> endpoints;  // by listening worker
  std::shared_ptr<const Plan> plan;         // for every iteration from here on
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

// The job is over: exit with 0.
struct Leave {};

using CoordinatorMessage = std::variant<Prepare, Resume, Ask, Fence, StopRequest, Leave>;

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

using AgentMessage = std::variant<AgentHello, ExecutorExited>;

}  // namespace recycle

#endif  // RECYCLE_PROTOCOL_MESSAGES_H_
