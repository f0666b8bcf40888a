#include "recycle/rpc/wire_values.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include "recycle/plan/plan_json.h"

namespace recycle {
namespace {

v1::BoundaryTensor ToProto(const BoundaryTensor& tensor) {
  v1::BoundaryTensor proto;
  proto.set_kind(tensor.kind == BoundaryKind::kActivation ? v1::BoundaryTensor::KIND_ACTIVATION
                                                          : v1::BoundaryTensor::KIND_GRADIENT);
  proto.set_stage(tensor.stage.value());
  *proto.mutable_micro_batch() = recycle::ToProto(tensor.micro_batch);
  return proto;
}

v1::Progress::Last ToProto(Progress last) {
  switch (last) {
    case Progress::kForward:
      return v1::Progress::LAST_FORWARD;
    case Progress::kInput:
      return v1::Progress::LAST_INPUT;
    case Progress::kWeight:
      return v1::Progress::LAST_WEIGHT;
  }
  return v1::Progress::LAST_UNSPECIFIED;
}

// A job has that many at most.
constexpr std::int32_t kMostIterations = std::numeric_limits<std::int32_t>::max() - 1000;
// What ToTicks takes, in ms.
constexpr std::int64_t kMostNanoseconds = std::int64_t{9'000'000} * kTicksPerUnit;
constexpr std::int64_t kMostGenerations = std::int64_t{1} << 60;
// More than a double has, in either direction.
constexpr std::int64_t kMostExponent = 2000;

Status TooMuch(std::string_view field, std::int64_t value, std::int64_t most) {
  return absl::InvalidArgumentError(
      fmt::format("control message: {} is {}; it must be at most {}", field, value, most));
}

Status Unknown(std::string_view field, int value) {
  return absl::InvalidArgumentError(
      fmt::format("control message: {} is {}, which this version does not know", field, value));
}

StatusOr<BoundaryTensor> ReadTensor(const v1::BoundaryTensor& proto) {
  BoundaryTensor tensor;
  if (proto.kind() == v1::BoundaryTensor::KIND_GRADIENT) {
    tensor.kind = BoundaryKind::kGradient;
  } else if (proto.kind() != v1::BoundaryTensor::KIND_ACTIVATION) {
    return Unknown("tensor.kind", proto.kind());
  }
  RC_RETURN_IF_ERROR(AtLeastZero("tensor.stage", proto.stage()));
  tensor.stage = StageId(proto.stage());
  RC_ASSIGN_OR_RETURN(tensor.micro_batch, ReadMicroBatch(proto.micro_batch()));
  return tensor;
}

StatusOr<Progress> ReadLast(v1::Progress::Last last) {
  if (last == v1::Progress::LAST_FORWARD) return Progress::kForward;
  if (last == v1::Progress::LAST_INPUT) return Progress::kInput;
  if (last == v1::Progress::LAST_WEIGHT) return Progress::kWeight;
  return Unknown("progress.last", last);
}

StatusOr<Resend> ReadResend(const v1::Resend& proto) {
  RC_ASSIGN_OR_RETURN(const BoundaryTensor tensor, ReadTensor(proto.tensor()));
  RC_ASSIGN_OR_RETURN(const WorkerId from,
                      ReadWorker("resend.from", proto.has_from(), proto.from()));
  RC_ASSIGN_OR_RETURN(const WorkerId to, ReadWorker("resend.to", proto.has_to(), proto.to()));
  return Resend{.tensor = tensor, .from = from, .to = to};
}

StatusOr<HandOver> ReadHandOver(const v1::HandOver& proto) {
  HandOver hand_over;
  if (proto.part() == v1::HandOver::PART_TIED) {
    hand_over.part = ReducedPart::kTied;
  } else if (proto.part() != v1::HandOver::PART_STAGE) {
    return Unknown("hand_over.part", proto.part());
  }
  RC_RETURN_IF_ERROR(AtLeastZero("hand_over.stage", proto.stage()));
  hand_over.stage = StageId(proto.stage());
  RC_ASSIGN_OR_RETURN(hand_over.from, ReadWorker("hand_over.from", proto.has_from(), proto.from()));
  return hand_over;
}

}  // namespace

v1::Worker ToProto(WorkerId worker) {
  v1::Worker proto;
  proto.set_pipeline(worker.pipeline.value());
  proto.set_stage(worker.stage.value());
  return proto;
}

v1::MicroBatch ToProto(MicroBatch micro_batch) {
  v1::MicroBatch proto;
  proto.set_home(micro_batch.home.value());
  proto.set_index(micro_batch.index);
  return proto;
}

v1::Endpoints ToProto(const Endpoints& endpoints) {
  v1::Endpoints proto;
  for (const auto& [name, address] : endpoints) (*proto.mutable_address())[name] = address;
  return proto;
}

v1::IterationLedger ToProto(const IterationLedger& ledger) {
  v1::IterationLedger proto;
  proto.set_iteration(ledger.iteration);
  for (const auto& [micro_batch, last] : ledger.progress) {
    v1::Progress& progress = *proto.add_progress();
    *progress.mutable_micro_batch() = ToProto(micro_batch);
    progress.set_last(ToProto(last));
  }
  proto.set_holds_stage_part(ledger.holds_stage_part);
  proto.set_holds_tied_part(ledger.holds_tied_part);
  for (const BoundaryTensor& tensor : ledger.inbox) *proto.add_inbox() = ToProto(tensor);
  for (const BoundaryTensor& tensor : ledger.log) *proto.add_log() = ToProto(tensor);
  return proto;
}

v1::OpenIteration ToProto(const OpenIteration& open) {
  v1::OpenIteration proto;
  proto.set_iteration(open.iteration);
  if (open.rest != nullptr) proto.set_rest_json(PlanToJson(*open.rest));
  for (const Resend& resend : open.resends) {
    v1::Resend& entry = *proto.add_resends();
    *entry.mutable_tensor() = ToProto(resend.tensor);
    *entry.mutable_from() = ToProto(resend.from);
    *entry.mutable_to() = ToProto(resend.to);
  }
  for (const HandOver& hand_over : open.hand_overs) {
    v1::HandOver& entry = *proto.add_hand_overs();
    entry.set_part(hand_over.part == ReducedPart::kStage ? v1::HandOver::PART_STAGE
                                                         : v1::HandOver::PART_TIED);
    entry.set_stage(hand_over.stage.value());
    *entry.mutable_from() = ToProto(hand_over.from);
  }
  return proto;
}

v1::Quantum ToProto(const Quantum& quantum) {
  v1::Quantum proto;
  proto.set_stage(quantum.stage.value());
  proto.set_iteration(quantum.iteration);
  proto.set_exponent(quantum.exponent);
  return proto;
}

v1::Verdict ToProto(const Verdict& verdict) {
  v1::Verdict proto;
  proto.set_iteration(verdict.iteration);
  proto.set_squared_norm(verdict.squared_norm);
  proto.set_stop(verdict.stop);
  proto.set_corrects(verdict.corrects);
  return proto;
}

Status AtLeastZero(std::string_view field, std::int64_t value) {
  if (value >= 0) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("control message: {} is {}; it must be at least 0", field, value));
}

Status CheckIteration(std::string_view field, std::int32_t value) {
  RC_RETURN_IF_ERROR(AtLeastZero(field, value));
  return value <= kMostIterations ? OkStatus() : TooMuch(field, value, kMostIterations);
}

Status CheckDuration(std::string_view field, std::int64_t nanoseconds) {
  RC_RETURN_IF_ERROR(AtLeastZero(field, nanoseconds));
  return nanoseconds <= kMostNanoseconds ? OkStatus()
                                         : TooMuch(field, nanoseconds, kMostNanoseconds);
}

StatusOr<Generation> ReadGeneration(std::int64_t value) {
  RC_RETURN_IF_ERROR(AtLeastZero("generation", value));
  if (value > kMostGenerations) return TooMuch("generation", value, kMostGenerations);
  return Generation(value);
}

StatusOr<WorkerId> ReadWorker(std::string_view field, bool present, const v1::Worker& proto) {
  if (!present) {
    return absl::InvalidArgumentError(fmt::format("control message: {} is missing", field));
  }
  RC_RETURN_IF_ERROR(AtLeastZero(field, proto.pipeline()));
  RC_RETURN_IF_ERROR(AtLeastZero(field, proto.stage()));
  return WorkerId{PipelineId(proto.pipeline()), StageId(proto.stage())};
}

StatusOr<std::vector<WorkerId>> ReadWorkers(
    std::string_view field, const google::protobuf::RepeatedPtrField<v1::Worker>& protos) {
  std::vector<WorkerId> workers;
  for (const v1::Worker& proto : protos) {
    RC_ASSIGN_OR_RETURN(const WorkerId worker, ReadWorker(field, true, proto));
    workers.push_back(worker);
  }
  return workers;
}

StatusOr<MicroBatch> ReadMicroBatch(const v1::MicroBatch& proto) {
  RC_RETURN_IF_ERROR(AtLeastZero("micro_batch.home", proto.home()));
  RC_RETURN_IF_ERROR(AtLeastZero("micro_batch.index", proto.index()));
  return MicroBatch{PipelineId(proto.home()), proto.index()};
}

Endpoints ReadEndpoints(const v1::Endpoints& proto) {
  return {proto.address().begin(), proto.address().end()};
}

StatusOr<IterationLedger> ReadIterationLedger(const v1::IterationLedger& proto) {
  IterationLedger ledger;
  RC_RETURN_IF_ERROR(CheckIteration("iteration", proto.iteration()));
  ledger.iteration = proto.iteration();
  for (const v1::Progress& entry : proto.progress()) {
    RC_ASSIGN_OR_RETURN(const MicroBatch micro_batch, ReadMicroBatch(entry.micro_batch()));
    RC_ASSIGN_OR_RETURN(const Progress last, ReadLast(entry.last()));
    if (!ledger.progress.emplace(micro_batch, last).second) {
      return absl::InvalidArgumentError(fmt::format(
          "control message: progress names micro-batch {} twice", ToString(micro_batch)));
    }
  }
  ledger.holds_stage_part = proto.holds_stage_part();
  ledger.holds_tied_part = proto.holds_tied_part();
  RC_ASSIGN_OR_RETURN(ledger.inbox, ReadEach(proto.inbox(), ReadTensor));
  RC_ASSIGN_OR_RETURN(ledger.log, ReadEach(proto.log(), ReadTensor));
  return ledger;
}

StatusOr<OpenIteration> ReadOpenIteration(const v1::OpenIteration& proto) {
  OpenIteration open;
  RC_RETURN_IF_ERROR(CheckIteration("iteration", proto.iteration()));
  open.iteration = proto.iteration();
  RC_ASSIGN_OR_RETURN(open.rest, ReadPlan(proto.rest_json()));
  RC_ASSIGN_OR_RETURN(open.resends, ReadEach(proto.resends(), ReadResend));
  RC_ASSIGN_OR_RETURN(open.hand_overs, ReadEach(proto.hand_overs(), ReadHandOver));
  return open;
}

StatusOr<Verdict> ReadVerdict(const v1::Verdict& proto) {
  RC_RETURN_IF_ERROR(CheckIteration("verdict.iteration", proto.iteration()));
  return Verdict{.iteration = proto.iteration(),
                 .squared_norm = proto.squared_norm(),
                 .stop = proto.stop(),
                 .corrects = proto.corrects()};
}

StatusOr<Quantum> ReadQuantum(const v1::Quantum& proto) {
  RC_RETURN_IF_ERROR(AtLeastZero("quantum.stage", proto.stage()));
  RC_RETURN_IF_ERROR(CheckIteration("quantum.iteration", proto.iteration()));
  const std::int64_t magnitude = std::abs(std::int64_t{proto.exponent()});
  if (magnitude > kMostExponent) return TooMuch("|quantum.exponent|", magnitude, kMostExponent);
  return Quantum{.stage = StageId(proto.stage()),
                 .iteration = proto.iteration(),
                 .exponent = proto.exponent()};
}

StatusOr<std::shared_ptr<const Plan>> ReadPlan(const std::string& json) {
  RC_ASSIGN_OR_RETURN(Plan plan, PlanFromJson(json));
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace recycle
