#include "recycle/rpc/convert.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "recycle/plan/plan_json.h"
#include "recycle/rpc/wire_values.h"

namespace recycle {
namespace {

// --- to the wire

void FillHeld(const SnapshotHeld& held, v1::SnapshotHeld& proto) {
  proto.set_stage(held.stage.value());
  proto.set_version(held.version);
  proto.set_bytes(held.bytes);
}

void Fill(const SnapshotHeld& message, v1::ExecutorMessage& proto) {
  FillHeld(message, *proto.mutable_snapshot_held());
}

void Fill(const Hello& message, v1::ExecutorMessage& proto) {
  *proto.mutable_hello()->mutable_worker() = ToProto(message.worker);
  proto.mutable_hello()->set_pid(message.pid);
  proto.mutable_hello()->set_generation(message.generation.value());
  proto.mutable_hello()->set_version(message.version);
  proto.mutable_hello()->set_arithmetic(message.arithmetic);
  for (const SnapshotHeld& held : message.snapshots) {
    FillHeld(held, *proto.mutable_hello()->add_snapshots());
  }
}

void Fill(const Heartbeat& message, v1::ExecutorMessage& proto) {
  v1::Heartbeat& heartbeat = *proto.mutable_heartbeat();
  heartbeat.set_generation(message.generation.value());
  heartbeat.set_version(message.version);
  heartbeat.set_peak_bytes(message.peak_bytes);
  heartbeat.set_actions_done(message.actions_done);
  heartbeat.set_running_ticks(message.running_ticks);
  heartbeat.set_ns_per_tick(message.ns_per_tick);
}

void Fill(const LinkBroken& message, v1::ExecutorMessage& proto) {
  v1::LinkBroken& broken = *proto.mutable_link_broken();
  broken.set_generation(message.generation.value());
  *broken.mutable_peer() = ToProto(message.peer);
  broken.set_error(message.error);
}

void Fill(const StillHere& message, v1::ExecutorMessage& proto) {
  proto.mutable_still_here()->set_nonce(message.nonce);
}

void Fill(const Ledger& message, v1::ExecutorMessage& proto) {
  v1::Ledger& ledger = *proto.mutable_ledger();
  ledger.set_generation(message.generation.value());
  ledger.set_version(message.version);
  ledger.set_validated(message.validated);
  for (const Verdict& verdict : message.verdicts) *ledger.add_verdicts() = ToProto(verdict);
  for (const Quantum& quantum : message.quanta) *ledger.add_quanta() = ToProto(quantum);
  if (message.outgrown) *ledger.mutable_outgrown() = ToProto(*message.outgrown);
  ledger.set_owes_validation(message.owes_validation);
  for (const IterationLedger& iteration : message.iterations) {
    *ledger.add_iterations() = ToProto(iteration);
  }
  for (const std::int32_t iteration : message.undo) ledger.add_undo(iteration);
  *ledger.mutable_endpoints() = ToProto(message.endpoints);
  for (const SnapshotHeld& held : message.snapshots) FillHeld(held, *ledger.add_snapshots());
}

void Fill(const Resumed& message, v1::ExecutorMessage& proto) {
  proto.mutable_resumed()->set_generation(message.generation.value());
}

void Fill(const IterationDone& message, v1::ExecutorMessage& proto) {
  v1::IterationDone& done = *proto.mutable_iteration_done();
  done.set_generation(message.generation.value());
  done.set_iteration(message.iteration);
  for (const MicroBatchResult& result : message.results) {
    v1::MicroBatchResult& entry = *done.add_results();
    *entry.mutable_micro_batch() = ToProto(result.micro_batch);
    entry.set_executed_by(result.executed_by.value());
    entry.set_loss_sum(result.loss_sum);
    entry.set_tokens(result.tokens);
  }
  done.set_grad_norm(message.grad_norm);
  done.set_lr(message.lr);
  if (message.validation_loss) done.set_validation_loss(*message.validation_loss);
  done.set_stop_agreed(message.stop_agreed);
  done.set_skipped_in_a_row(message.skipped_in_a_row);
  done.set_stepped_at_ns(message.stepped_at.time_since_epoch().count());
}

void Fill(const Amend& message, v1::ExecutorMessage& proto) {
  proto.mutable_amend()->set_generation(message.generation.value());
  *proto.mutable_amend()->mutable_verdict() = ToProto(message.verdict);
}

void Fill(const Outgrown& message, v1::ExecutorMessage& proto) {
  proto.mutable_outgrown()->set_generation(message.generation.value());
  *proto.mutable_outgrown()->mutable_quantum() = ToProto(message.quantum);
}

void Fill(const MeasuredCosts& message, v1::ExecutorMessage& proto) {
  v1::MeasuredCosts& costs = *proto.mutable_measured_costs();
  costs.set_forward_ns(message.forward);
  costs.set_backward_input_ns(message.backward_input);
  costs.set_backward_weight_ns(message.backward_weight);
}

void Fill(const LastWords& message, v1::ExecutorMessage& proto) {
  proto.mutable_last_words()->set_message(message.message);
}

void Fill(const FaultReport& message, v1::ExecutorMessage& proto) {
  v1::FaultReport& report = *proto.mutable_fault_report();
  report.set_index(message.index);
  report.set_fired(message.fired);
  report.set_iteration(message.iteration);
}

void Fill(const Finished& message, v1::ExecutorMessage& proto) {
  v1::Finished& finished = *proto.mutable_finished();
  finished.set_version(message.version);
  finished.set_link_bytes(message.link_bytes);
  for (const auto& [name, sha256] : message.parameter_sha256) {
    (*finished.mutable_parameter_sha256())[name] = sha256;
  }
}

void Fill(const TransferOpened& message, v1::ExecutorMessage& proto) {
  proto.mutable_transfer_opened()->set_transfer(message.transfer);
  proto.mutable_transfer_opened()->set_address(message.address);
}

void Fill(const TransferBroken& message, v1::ExecutorMessage& proto) {
  proto.mutable_transfer_broken()->set_transfer(message.transfer);
  proto.mutable_transfer_broken()->set_error(message.error);
}

void Fill(const CaughtUp& message, v1::ExecutorMessage& proto) {
  v1::CaughtUp& caught_up = *proto.mutable_caught_up();
  caught_up.set_transfer(message.transfer);
  caught_up.set_version(message.version);
  caught_up.set_bytes(message.bytes);
  caught_up.set_microseconds(message.microseconds);
}

void Fill(const StateHash& message, v1::ExecutorMessage& proto) {
  proto.mutable_state_hash()->set_version(message.version);
  proto.mutable_state_hash()->set_hash(message.hash);
}

void Fill(const Departing& message, v1::ExecutorMessage& proto) {
  proto.mutable_departing()->set_version(message.version);
  if (message.next) *proto.mutable_departing()->mutable_next() = ToProto(*message.next);
}

void Fill(const ShardWritten& message, v1::ExecutorMessage& proto) {
  v1::ShardWritten& shard = *proto.mutable_shard_written();
  shard.set_generation(message.generation.value());
  shard.set_version(message.version);
  shard.set_layer_begin(message.layer_begin);
  shard.set_layer_end(message.layer_end);
  shard.set_file(message.file);
  shard.set_bytes(message.bytes);
  shard.set_sha256(message.sha256);
  shard.set_error(message.error);
}

void Fill(const RestoreFailed& message, v1::ExecutorMessage& proto) {
  v1::RestoreFailed& failed = *proto.mutable_restore_failed();
  failed.set_generation(message.generation.value());
  failed.set_version(message.version);
  failed.set_error(message.error);
}

void Fill(const Prepare& message, v1::CoordinatorMessage& proto) {
  v1::Prepare& prepare = *proto.mutable_prepare();
  prepare.set_generation(message.generation.value());
  for (const WorkerId worker : message.members) *prepare.add_members() = ToProto(worker);
  for (const WorkerId worker : message.dead) *prepare.add_dead() = ToProto(worker);
  for (const auto& [a, b] : message.relinked) {
    v1::Link& link = *prepare.add_relinked();
    *link.mutable_a() = ToProto(a);
    *link.mutable_b() = ToProto(b);
  }
  prepare.set_reason(message.reason);
  if (message.restore) prepare.set_restore(*message.restore);
  prepare.set_from_memory(message.from_memory);
}

void Fill(const Resume& message, v1::CoordinatorMessage& proto) {
  v1::Resume& resume = *proto.mutable_resume();
  resume.set_generation(message.generation.value());
  for (const OpenIteration& open : message.open) *resume.add_open() = ToProto(open);
  resume.set_next_iteration(message.next_iteration);
  resume.set_repeat_validation(message.repeat_validation);
  for (const auto& [worker, endpoints] : message.endpoints) {
    v1::Listener& listener = *resume.add_listeners();
    *listener.mutable_worker() = ToProto(worker);
    *listener.mutable_endpoints() = ToProto(endpoints);
  }
  if (message.plan != nullptr) resume.set_plan_json(PlanToJson(*message.plan));
  resume.set_compare_state(message.compare_state);
  for (const Verdict& verdict : message.verdicts) *resume.add_verdicts() = ToProto(verdict);
  for (const Quantum& quantum : message.quanta) *resume.add_quanta() = ToProto(quantum);
}

void Fill(const Ask& message, v1::CoordinatorMessage& proto) {
  proto.mutable_ask()->set_nonce(message.nonce);
}

void Fill(const Fence& message, v1::CoordinatorMessage& proto) {
  proto.mutable_fence()->set_reason(message.reason);
}

void Fill(const StopRequest& /*message*/, v1::CoordinatorMessage& proto) {
  proto.mutable_stop_request();
}

void Fill(const Leave& message, v1::CoordinatorMessage& proto) {
  v1::Leave& leave = *proto.mutable_leave();
  if (message.next) *leave.mutable_next() = ToProto(*message.next);
}

void Fill(const Transfer& message, v1::CoordinatorMessage& proto) {
  v1::Transfer& transfer = *proto.mutable_transfer();
  transfer.set_transfer(message.transfer);
  *transfer.mutable_donor() = ToProto(message.donor);
  *transfer.mutable_joiner() = ToProto(message.joiner);
  transfer.set_donor_end(message.donor_end);
  transfer.set_joiner_end(message.joiner_end);
  if (!message.snapshot) return;
  transfer.mutable_snapshot()->set_stage(message.snapshot->stage.value());
  if (message.snapshot->version)
    transfer.mutable_snapshot()->set_version(*message.snapshot->version);
}

void Fill(const SnapshotCounts& message, v1::CoordinatorMessage& proto) {
  proto.mutable_snapshot_counts()->set_version(message.version);
}

void Fill(const EndTransfer& message, v1::CoordinatorMessage& proto) {
  proto.mutable_end_transfer()->set_transfer(message.transfer);
}

void Fill(const Drain& message, v1::CoordinatorMessage& proto) {
  v1::Drain& drain = *proto.mutable_drain();
  if (message.next) *drain.mutable_next() = ToProto(*message.next);
}

void Fill(const Recorded& message, v1::CoordinatorMessage& proto) {
  proto.mutable_recorded()->set_iteration(message.iteration);
}

void Fill(const Parked& message, v1::AgentMessage& proto) {
  *proto.mutable_parked()->mutable_worker() = ToProto(message.worker);
  proto.mutable_parked()->set_deaths(message.deaths);
}

void Fill(const AgentHello& message, v1::AgentMessage& proto) {
  proto.mutable_hello()->set_agent(message.agent);
  proto.mutable_hello()->set_pid(message.pid);
}

void Fill(const ExecutorExited& message, v1::AgentMessage& proto) {
  v1::ExecutorExited& exited = *proto.mutable_exited();
  *exited.mutable_worker() = ToProto(message.worker);
  exited.set_pid(message.pid);
  exited.set_wait_status(message.wait_status);
}

// --- from the wire

StatusOr<SnapshotHeld> ReadHeld(const v1::SnapshotHeld& proto) {
  RC_RETURN_IF_ERROR(AtLeastZero("stage", proto.stage()));
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_RETURN_IF_ERROR(AtLeastZero("bytes", proto.bytes()));
  return SnapshotHeld{
      .stage = StageId(proto.stage()), .version = proto.version(), .bytes = proto.bytes()};
}

StatusOr<ExecutorMessage> Read(const v1::SnapshotHeld& proto) {
  RC_ASSIGN_OR_RETURN(const SnapshotHeld held, ReadHeld(proto));
  return held;
}

StatusOr<ExecutorMessage> Read(const v1::Hello& proto) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker,
                      ReadWorker("worker", proto.has_worker(), proto.worker()));
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_RETURN_IF_ERROR(AtLeastZero("pid", proto.pid()));
  RC_ASSIGN_OR_RETURN(std::vector<SnapshotHeld> snapshots, ReadEach(proto.snapshots(), ReadHeld));
  return Hello{.worker = worker,
               .pid = proto.pid(),
               .generation = generation,
               .version = proto.version(),
               .snapshots = std::move(snapshots),
               .arithmetic = proto.arithmetic()};
}

StatusOr<ExecutorMessage> Read(const v1::Heartbeat& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_RETURN_IF_ERROR(AtLeastZero("peak_bytes", proto.peak_bytes()));
  RC_RETURN_IF_ERROR(AtLeastZero("actions_done", proto.actions_done()));
  RC_RETURN_IF_ERROR(AtLeastZero("running_ticks", proto.running_ticks()));
  if (!(proto.ns_per_tick() >= 0 && std::isfinite(proto.ns_per_tick()))) {
    return absl::InvalidArgumentError(fmt::format(
        "control message: ns_per_tick is {}; it must be a number from 0", proto.ns_per_tick()));
  }
  return Heartbeat{.generation = generation,
                   .version = proto.version(),
                   .peak_bytes = proto.peak_bytes(),
                   .actions_done = proto.actions_done(),
                   .running_ticks = proto.running_ticks(),
                   .ns_per_tick = proto.ns_per_tick()};
}

StatusOr<ExecutorMessage> Read(const v1::LinkBroken& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_ASSIGN_OR_RETURN(const WorkerId peer, ReadWorker("peer", proto.has_peer(), proto.peer()));
  return LinkBroken{.generation = generation, .peer = peer, .error = proto.error()};
}

StatusOr<ExecutorMessage> Read(const v1::Ledger& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  Ledger ledger{.generation = generation,
                .version = proto.version(),
                .validated = proto.validated(),
                .verdicts = {},
                .quanta = {},
                .outgrown = std::nullopt,
                .owes_validation = proto.owes_validation(),
                .iterations = {},
                .undo = {proto.undo().begin(), proto.undo().end()},
                .endpoints = ReadEndpoints(proto.endpoints()),
                .snapshots = {}};
  RC_ASSIGN_OR_RETURN(ledger.snapshots, ReadEach(proto.snapshots(), ReadHeld));
  RC_ASSIGN_OR_RETURN(ledger.iterations, ReadEach(proto.iterations(), ReadIterationLedger));
  RC_RETURN_IF_ERROR(CheckAscending("iterations", ledger.iterations));
  for (const std::int32_t iteration : ledger.undo) {
    RC_RETURN_IF_ERROR(CheckIteration("undo", iteration));
  }
  RC_ASSIGN_OR_RETURN(ledger.verdicts, ReadEach(proto.verdicts(), ReadVerdict));
  RC_ASSIGN_OR_RETURN(ledger.quanta, ReadEach(proto.quanta(), ReadQuantum));
  if (proto.has_outgrown()) {
    RC_ASSIGN_OR_RETURN(ledger.outgrown, ReadQuantum(proto.outgrown()));
  }
  return ledger;
}

StatusOr<ExecutorMessage> Read(const v1::Resumed& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  return Resumed{generation};
}

StatusOr<ExecutorMessage> Read(const v1::IterationDone& proto) {
  IterationDone done;
  RC_ASSIGN_OR_RETURN(done.generation, ReadGeneration(proto.generation()));
  RC_RETURN_IF_ERROR(CheckIteration("iteration", proto.iteration()));
  done.iteration = proto.iteration();
  done.results.reserve(static_cast<std::size_t>(proto.results_size()));
  for (const v1::MicroBatchResult& entry : proto.results()) {
    RC_ASSIGN_OR_RETURN(const MicroBatch micro_batch, ReadMicroBatch(entry.micro_batch()));
    RC_RETURN_IF_ERROR(AtLeastZero("executed_by", entry.executed_by()));
    RC_RETURN_IF_ERROR(AtLeastZero("tokens", entry.tokens()));
    done.results.push_back({.micro_batch = micro_batch,
                            .executed_by = PipelineId(entry.executed_by()),
                            .loss_sum = entry.loss_sum(),
                            .tokens = entry.tokens()});
  }
  done.grad_norm = proto.grad_norm();
  done.lr = proto.lr();
  if (proto.has_validation_loss()) done.validation_loss = proto.validation_loss();
  done.stop_agreed = proto.stop_agreed();
  done.skipped_in_a_row = proto.skipped_in_a_row();
  done.stepped_at = TimePoint(Duration(proto.stepped_at_ns()));
  return done;
}

StatusOr<ExecutorMessage> Read(const v1::Amend& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_ASSIGN_OR_RETURN(const Verdict verdict, ReadVerdict(proto.verdict()));
  return Amend{.generation = generation, .verdict = verdict};
}

StatusOr<ExecutorMessage> Read(const v1::Outgrown& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_ASSIGN_OR_RETURN(const Quantum quantum, ReadQuantum(proto.quantum()));
  return Outgrown{.generation = generation, .quantum = quantum};
}

StatusOr<ExecutorMessage> Read(const v1::MeasuredCosts& proto) {
  RC_RETURN_IF_ERROR(CheckDuration("forward_ns", proto.forward_ns()));
  RC_RETURN_IF_ERROR(CheckDuration("backward_input_ns", proto.backward_input_ns()));
  RC_RETURN_IF_ERROR(CheckDuration("backward_weight_ns", proto.backward_weight_ns()));
  return MeasuredCosts{.forward = proto.forward_ns(),
                       .backward_input = proto.backward_input_ns(),
                       .backward_weight = proto.backward_weight_ns()};
}

StatusOr<ExecutorMessage> Read(const v1::FaultReport& proto) {
  RC_RETURN_IF_ERROR(AtLeastZero("index", proto.index()));
  RC_RETURN_IF_ERROR(CheckIteration("iteration", proto.iteration()));
  return FaultReport{
      .index = proto.index(), .fired = proto.fired(), .iteration = proto.iteration()};
}

StatusOr<ExecutorMessage> Read(const v1::Finished& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_RETURN_IF_ERROR(AtLeastZero("link_bytes", proto.link_bytes()));
  return Finished{
      .version = proto.version(),
      .parameter_sha256 = {proto.parameter_sha256().begin(), proto.parameter_sha256().end()},
      .link_bytes = proto.link_bytes()};
}

StatusOr<ExecutorMessage> Read(const v1::CaughtUp& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_RETURN_IF_ERROR(AtLeastZero("bytes", proto.bytes()));
  RC_RETURN_IF_ERROR(AtLeastZero("microseconds", proto.microseconds()));
  return CaughtUp{.transfer = proto.transfer(),
                  .version = proto.version(),
                  .bytes = proto.bytes(),
                  .microseconds = proto.microseconds()};
}

StatusOr<ExecutorMessage> Read(const v1::StateHash& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  return StateHash{.version = proto.version(), .hash = proto.hash()};
}

// The place that a worker takes after its own.
StatusOr<std::optional<WorkerId>> ReadNext(bool present, const v1::Worker& proto) {
  if (!present) return std::optional<WorkerId>();
  RC_ASSIGN_OR_RETURN(const WorkerId next, ReadWorker("next", present, proto));
  return std::optional(next);
}

StatusOr<ExecutorMessage> Read(const v1::Departing& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_ASSIGN_OR_RETURN(const std::optional<WorkerId> next, ReadNext(proto.has_next(), proto.next()));
  return Departing{.version = proto.version(), .next = next};
}

StatusOr<ExecutorMessage> Read(const v1::ShardWritten& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  RC_RETURN_IF_ERROR(AtLeastZero("layer_begin", proto.layer_begin()));
  RC_RETURN_IF_ERROR(AtLeastZero("layer_end", proto.layer_end()));
  RC_RETURN_IF_ERROR(AtLeastZero("bytes", proto.bytes()));
  return ShardWritten{.generation = generation,
                      .version = proto.version(),
                      .layer_begin = proto.layer_begin(),
                      .layer_end = proto.layer_end(),
                      .file = proto.file(),
                      .bytes = proto.bytes(),
                      .sha256 = proto.sha256(),
                      .error = proto.error()};
}

StatusOr<ExecutorMessage> Read(const v1::RestoreFailed& proto) {
  RC_ASSIGN_OR_RETURN(const Generation generation, ReadGeneration(proto.generation()));
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  return RestoreFailed{
      .generation = generation, .version = proto.version(), .error = proto.error()};
}

StatusOr<CoordinatorMessage> Read(const v1::Prepare& proto) {
  Prepare prepare;
  RC_ASSIGN_OR_RETURN(prepare.generation, ReadGeneration(proto.generation()));
  RC_ASSIGN_OR_RETURN(prepare.members, ReadWorkers("members", proto.members()));
  RC_ASSIGN_OR_RETURN(prepare.dead, ReadWorkers("dead", proto.dead()));
  for (const v1::Link& link : proto.relinked()) {
    RC_ASSIGN_OR_RETURN(const WorkerId a, ReadWorker("relinked.a", link.has_a(), link.a()));
    RC_ASSIGN_OR_RETURN(const WorkerId b, ReadWorker("relinked.b", link.has_b(), link.b()));
    prepare.relinked.emplace_back(a, b);
  }
  prepare.reason = proto.reason();
  if (proto.has_restore()) {
    RC_RETURN_IF_ERROR(CheckIteration("restore", proto.restore()));
    prepare.restore = proto.restore();
  }
  prepare.from_memory = proto.from_memory();
  return prepare;
}

StatusOr<CoordinatorMessage> Read(const v1::Resume& proto) {
  Resume resume;
  RC_ASSIGN_OR_RETURN(resume.generation, ReadGeneration(proto.generation()));
  RC_ASSIGN_OR_RETURN(resume.open, ReadEach(proto.open(), ReadOpenIteration));
  RC_RETURN_IF_ERROR(CheckAscending("open", resume.open));
  RC_RETURN_IF_ERROR(CheckIteration("next_iteration", proto.next_iteration()));
  resume.next_iteration = proto.next_iteration();
  resume.repeat_validation = proto.repeat_validation();
  for (const v1::Listener& listener : proto.listeners()) {
    RC_ASSIGN_OR_RETURN(const WorkerId worker,
                        ReadWorker("listeners.worker", listener.has_worker(), listener.worker()));
    resume.endpoints[worker] = ReadEndpoints(listener.endpoints());
  }
  RC_ASSIGN_OR_RETURN(resume.plan, ReadPlan(proto.plan_json()));
  resume.compare_state = proto.compare_state();
  RC_ASSIGN_OR_RETURN(resume.verdicts, ReadEach(proto.verdicts(), ReadVerdict));
  RC_ASSIGN_OR_RETURN(resume.quanta, ReadEach(proto.quanta(), ReadQuantum));
  return resume;
}

StatusOr<CoordinatorMessage> Read(const v1::Transfer& proto) {
  RC_ASSIGN_OR_RETURN(const WorkerId donor, ReadWorker("donor", proto.has_donor(), proto.donor()));
  RC_ASSIGN_OR_RETURN(const WorkerId joiner,
                      ReadWorker("joiner", proto.has_joiner(), proto.joiner()));
  Transfer transfer{.transfer = proto.transfer(),
                    .donor = donor,
                    .joiner = joiner,
                    .donor_end = proto.donor_end(),
                    .joiner_end = proto.joiner_end(),
                    .snapshot = std::nullopt};
  if (!proto.has_snapshot()) return transfer;
  RC_RETURN_IF_ERROR(AtLeastZero("snapshot.stage", proto.snapshot().stage()));
  transfer.snapshot =
      SnapshotOrder{.stage = StageId(proto.snapshot().stage()), .version = std::nullopt};
  if (proto.snapshot().has_version()) {
    RC_RETURN_IF_ERROR(CheckIteration("snapshot.version", proto.snapshot().version()));
    transfer.snapshot->version = proto.snapshot().version();
  }
  return transfer;
}

StatusOr<CoordinatorMessage> Read(const v1::Leave& proto) {
  RC_ASSIGN_OR_RETURN(const std::optional<WorkerId> next, ReadNext(proto.has_next(), proto.next()));
  return Leave{next};
}

StatusOr<CoordinatorMessage> Read(const v1::Drain& proto) {
  RC_ASSIGN_OR_RETURN(const std::optional<WorkerId> next, ReadNext(proto.has_next(), proto.next()));
  return Drain{next};
}

StatusOr<CoordinatorMessage> Read(const v1::SnapshotCounts& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("version", proto.version()));
  return SnapshotCounts{.version = proto.version()};
}

StatusOr<CoordinatorMessage> Read(const v1::Recorded& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("iteration", proto.iteration()));
  return Recorded{.iteration = proto.iteration()};
}

StatusOr<AgentMessage> Read(const v1::AgentHello& proto) {
  RC_RETURN_IF_ERROR(AtLeastZero("agent", proto.agent()));
  RC_RETURN_IF_ERROR(AtLeastZero("pid", proto.pid()));
  return AgentHello{.agent = proto.agent(), .pid = proto.pid()};
}

StatusOr<AgentMessage> Read(const v1::ExecutorExited& proto) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker,
                      ReadWorker("worker", proto.has_worker(), proto.worker()));
  RC_RETURN_IF_ERROR(AtLeastZero("pid", proto.pid()));
  return ExecutorExited{.worker = worker, .pid = proto.pid(), .wait_status = proto.wait_status()};
}

StatusOr<AgentMessage> Read(const v1::Parked& proto) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker,
                      ReadWorker("worker", proto.has_worker(), proto.worker()));
  RC_RETURN_IF_ERROR(AtLeastZero("deaths", proto.deaths()));
  return Parked{.worker = worker, .deaths = proto.deaths()};
}

Status NoKind() {
  return absl::InvalidArgumentError("control message: no kind that this version knows is set");
}

template <typename Proto, typename Message>
Proto Convert(const Message& message) {
  Proto proto;
  std::visit([&](const auto& kind) { Fill(kind, proto); }, message);
  return proto;
}

}  // namespace

v1::ExecutorMessage ToProto(const ExecutorMessage& message) {
  return Convert<v1::ExecutorMessage>(message);
}

v1::CoordinatorMessage ToProto(const CoordinatorMessage& message) {
  return Convert<v1::CoordinatorMessage>(message);
}

v1::AgentMessage ToProto(const AgentMessage& message) { return Convert<v1::AgentMessage>(message); }

StatusOr<ExecutorMessage> FromProto(const v1::ExecutorMessage& message) {
  switch (message.kind_case()) {
    case v1::ExecutorMessage::kHello:
      return Read(message.hello());
    case v1::ExecutorMessage::kHeartbeat:
      return Read(message.heartbeat());
    case v1::ExecutorMessage::kLinkBroken:
      return Read(message.link_broken());
    case v1::ExecutorMessage::kStillHere:
      return StillHere{message.still_here().nonce()};
    case v1::ExecutorMessage::kLedger:
      return Read(message.ledger());
    case v1::ExecutorMessage::kResumed:
      return Read(message.resumed());
    case v1::ExecutorMessage::kIterationDone:
      return Read(message.iteration_done());
    case v1::ExecutorMessage::kLastWords:
      return LastWords{message.last_words().message()};
    case v1::ExecutorMessage::kFaultReport:
      return Read(message.fault_report());
    case v1::ExecutorMessage::kFinished:
      return Read(message.finished());
    case v1::ExecutorMessage::kTransferOpened:
      return TransferOpened{message.transfer_opened().transfer(),
                            message.transfer_opened().address()};
    case v1::ExecutorMessage::kTransferBroken:
      return TransferBroken{message.transfer_broken().transfer(),
                            message.transfer_broken().error()};
    case v1::ExecutorMessage::kCaughtUp:
      return Read(message.caught_up());
    case v1::ExecutorMessage::kStateHash:
      return Read(message.state_hash());
    case v1::ExecutorMessage::kDeparting:
      return Read(message.departing());
    case v1::ExecutorMessage::kShardWritten:
      return Read(message.shard_written());
    case v1::ExecutorMessage::kRestoreFailed:
      return Read(message.restore_failed());
    case v1::ExecutorMessage::kSnapshotHeld:
      return Read(message.snapshot_held());
    case v1::ExecutorMessage::kAmend:
      return Read(message.amend());
    case v1::ExecutorMessage::kOutgrown:
      return Read(message.outgrown());
    case v1::ExecutorMessage::kMeasuredCosts:
      return Read(message.measured_costs());
    case v1::ExecutorMessage::KIND_NOT_SET:
      break;
  }
  return NoKind();
}

StatusOr<CoordinatorMessage> FromProto(const v1::CoordinatorMessage& message) {
  switch (message.kind_case()) {
    case v1::CoordinatorMessage::kPrepare:
      return Read(message.prepare());
    case v1::CoordinatorMessage::kResume:
      return Read(message.resume());
    case v1::CoordinatorMessage::kAsk:
      return Ask{message.ask().nonce()};
    case v1::CoordinatorMessage::kFence:
      return Fence{message.fence().reason()};
    case v1::CoordinatorMessage::kStopRequest:
      return StopRequest{};
    case v1::CoordinatorMessage::kLeave:
      return Read(message.leave());
    case v1::CoordinatorMessage::kTransfer:
      return Read(message.transfer());
    case v1::CoordinatorMessage::kEndTransfer:
      return EndTransfer{message.end_transfer().transfer()};
    case v1::CoordinatorMessage::kDrain:
      return Read(message.drain());
    case v1::CoordinatorMessage::kRecorded:
      return Read(message.recorded());
    case v1::CoordinatorMessage::kSnapshotCounts:
      return Read(message.snapshot_counts());
    case v1::CoordinatorMessage::KIND_NOT_SET:
      break;
  }
  return NoKind();
}

StatusOr<AgentMessage> FromProto(const v1::AgentMessage& message) {
  switch (message.kind_case()) {
    case v1::AgentMessage::kHello:
      return Read(message.hello());
    case v1::AgentMessage::kExited:
      return Read(message.exited());
    case v1::AgentMessage::kParked:
      return Read(message.parked());
    case v1::AgentMessage::KIND_NOT_SET:
      break;
  }
  return NoKind();
}

std::string KindName(const google::protobuf::Message& message) {
  const google::protobuf::OneofDescriptor* oneof = message.GetDescriptor()->oneof_decl(0);
  const google::protobuf::FieldDescriptor* field =
      message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  return field == nullptr ? "nothing" : field->message_type()->name();
}

}  // namespace recycle
