// Messages of the control plane for tests: one of every kind, with no field at its default.
#ifndef RECYCLE_TESTING_SAMPLE_MESSAGES_H_
#define RECYCLE_TESTING_SAMPLE_MESSAGES_H_

#include <memory>
#include <string>
#include <vector>

#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

inline WorkerId WorkerAt(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

inline Quantum SampleQuantum() { return {.stage = StageId(1), .iteration = 5, .exponent = -30}; }

inline ShardWritten SampleShard() {
  return {.generation = Generation(3),
          .version = 15,
          .layer_begin = 1,
          .layer_end = 3,
          .file = "layers-00001-00002.g3.safetensors",
          .bytes = 16,
          .sha256 = "ab",
          .error = "no room \xff"};
}

inline std::vector<ExecutorMessage> ExecutorMessages() {
  const Generation generation(3);
  return {
      Hello{.worker = WorkerAt(1, 2),
            .pid = 77,
            .generation = generation,
            .version = 4,
            .snapshots = {{.stage = StageId(1), .version = 4, .bytes = 1LL << 40}},
            .arithmetic = "AVX2 Haswell 12345678"},
      Heartbeat{.generation = generation,
                .version = 4,
                .peak_bytes = 1LL << 40,
                .actions_done = 77,
                .running_ticks = 1'500'000,
                .ns_per_tick = 0.25},
      LinkBroken{.generation = generation, .peer = WorkerAt(2, 1), .error = "reset \xff by peer"},
      StillHere{.nonce = 9},
      Ledger{.generation = generation,
             .version = 5,
             .validated = true,
             .verdicts = {{.iteration = 4, .squared_norm = 2.5, .stop = true, .corrects = true}},
             .quanta = {SampleQuantum()},
             .outgrown = SampleQuantum(),
             .owes_validation = true,
             .iterations = {{.iteration = 5,
                             .progress = {{{PipelineId(1), 1}, Progress::kForward},
                                          {{PipelineId(1), 2}, Progress::kInput},
                                          {{PipelineId(2), 1}, Progress::kWeight}},
                             .holds_stage_part = true,
                             .holds_tied_part = true,
                             .inbox = {{BoundaryKind::kGradient, StageId(1), {PipelineId(1), 1}}},
                             .log = {{BoundaryKind::kActivation, StageId(2), {PipelineId(1), 2}}}}},
             .undo = {4},
             .endpoints = {{"link 0:1", std::string("\0\xff", 2)}, {"stage 2:2", "x"}},
             .snapshots = {{.stage = StageId(1), .version = 4, .bytes = 8}}},
      Resumed{.generation = generation},
      IterationDone{.generation = generation,
                    .iteration = 6,
                    .results = {{.micro_batch = {PipelineId(1), 2},
                                 .executed_by = PipelineId(2),
                                 .loss_sum = 0.1,
                                 .tokens = 512}},
                    .grad_norm = 1.0 / 3.0,
                    .lr = 3.0e-4,
                    .validation_loss = 2.5,
                    .stop_agreed = true,
                    .skipped_in_a_row = 2,
                    .stepped_at = TimePoint(Duration(81'012'345))},
      LastWords{.message = "out of memory"},
      FaultReport{.index = 1, .fired = true, .iteration = 7},
      Finished{.version = 8,
               .parameter_sha256 = {{"wte", "abc"}, {"ln.weight", "def"}},
               .link_bytes = 1 << 20},
      TransferOpened{.transfer = 3, .address = std::string("\0\xff", 2)},
      TransferBroken{.transfer = 3, .error = "reset"},
      CaughtUp{.transfer = 3, .version = 12, .bytes = 1 << 20, .microseconds = 4500},
      StateHash{.version = 13, .hash = 0xfedcba9876543210U},
      Departing{.version = 14, .next = WorkerAt(1, 1)},
      SampleShard(),
      RestoreFailed{.generation = Generation(3), .version = 15, .error = "damaged \xff"},
      SnapshotHeld{.stage = StageId(2), .version = 16, .bytes = 1LL << 40},
      Amend{.generation = generation,
            .verdict = {.iteration = 4, .squared_norm = 2.5, .stop = true, .corrects = true}},
      Outgrown{.generation = generation, .quantum = SampleQuantum()},
      MeasuredCosts{.forward = 1 << 20, .backward_input = 1 << 21, .backward_weight = 1 << 22},
  };
}

inline Plan SmallPlan() {
  Plan plan;
  plan.parallel = {.data = 1, .pipeline = 1};
  plan.costs.stages.emplace_back().forward = kTicksPerUnit;
  plan.workers = {{WorkerAt(0, 0), ParseActions("0F0.0 0B0.0").value()}};
  plan.method = "1f1b";
  AddStepActions(plan);
  return plan;
}

inline Plan SmallRest() {
  Plan rest = SmallPlan();
  rest.initial = {{WorkerAt(0, 0), 6, ParseActions("0F0.0 0B0.0").value()}};
  rest.committed = {StageId(0)};
  rest.workers = {{WorkerAt(0, 0), ParseActions("0REDUCE_GRAD 0VALIDATE 0STEP").value()}};
  return rest;
}

inline std::vector<CoordinatorMessage> CoordinatorMessages() {
  return {
      Prepare{.generation = Generation(2),
              .members = {WorkerAt(1, 0), WorkerAt(1, 1)},
              .dead = {WorkerAt(0, 1)},
              .relinked = {{WorkerAt(1, 0), WorkerAt(1, 1)}},
              .reason = "worker 0:1 is lost",
              .restore = 40,
              .from_memory = true},
      Resume{.generation = Generation(2),
             .open = {{.iteration = 5,
                       .rest = std::make_shared<const Plan>(SmallRest()),
                       .resends =
                           {{.tensor = {BoundaryKind::kActivation, StageId(1), {PipelineId(1), 2}},
                             .from = WorkerAt(1, 1),
                             .to = WorkerAt(2, 1)}},
                       .hand_overs = {{ReducedPart::kTied, StageId(1), WorkerAt(1, 1)}}}},
             .next_iteration = 6,
             .repeat_validation = true,
             .verdicts = {{.iteration = 4, .squared_norm = 2.5, .stop = true, .corrects = true}},
             .quanta = {SampleQuantum()},
             .endpoints = {{WorkerAt(1, 1), {{"link 1:1", "address"}}}},
             .plan = std::make_shared<const Plan>(SmallPlan()),
             .compare_state = true},
      Ask{.nonce = 11},
      // Larger than what gRPC takes by default.
      Fence{.reason = std::string(8 << 20, 'x')},
      StopRequest{},
      Leave{.next = WorkerAt(2, 1)},
      Transfer{.transfer = 3,
               .donor = WorkerAt(0, 1),
               .joiner = WorkerAt(1, 1),
               .donor_end = std::string("\0\xfe", 2),
               .joiner_end = std::string("\0\xff", 2),
               .snapshot = SnapshotOrder{.stage = StageId(2), .version = 16}},
      EndTransfer{.transfer = 3},
      Drain{.next = WorkerAt(2, 1)},
      Recorded{.iteration = 9},
      SnapshotCounts{.version = 16},
  };
}

inline std::vector<AgentMessage> AgentMessages() {
  return {AgentHello{.agent = 2, .pid = 5},
          ExecutorExited{.worker = WorkerAt(1, 1), .pid = 6, .wait_status = 9},
          Parked{.worker = WorkerAt(1, 1), .deaths = 5}};
}

}  // namespace recycle

#endif  // RECYCLE_TESTING_SAMPLE_MESSAGES_H_
