#include "recycle/executor/action_runner.h"

#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>

#include "recycle/base/check.h"
#include "recycle/base/log.h"
#include "recycle/executor/allocation_meter.h"

namespace recycle {
namespace {

std::vector<std::byte> ToBytes(const at::Tensor& tensor, std::size_t room_behind) {
  const at::Tensor whole = tensor.contiguous();
  std::vector<std::byte> bytes;
  bytes.reserve(whole.nbytes() + room_behind);
  const auto* begin = static_cast<const std::byte*>(whole.data_ptr());
  bytes.assign(begin, begin + whole.nbytes());
  return bytes;
}

// The tensor keeps the payload alive.
at::Tensor ToTensor(std::vector<std::byte> payload, at::IntArrayRef shape) {
  auto* owned = new std::vector<std::byte>(std::move(payload));
  const auto bytes = static_cast<std::int64_t>(owned->size());
  ReportHeld(owned->data(), bytes);
  return at::from_blob(
      owned->data(), shape,
      [owned, bytes](void* data) {
        ReportHeld(data, -bytes);
        delete owned;
      },
      at::kFloat);
}

}  // namespace

ActionRunner::ActionRunner(const ExecutorOptions& options, const RunnerServices& services)
    : options_(options), services_(services), num_stages_(options.parallel.num_stages()) {}

LayerHook ActionRunner::HookFor(FaultPoint point, int iteration, const Action& action) {
  if (!services_.injector.Armed(point)) return {};
  return [this, point, iteration, action](int layers_done, int layers_total) {
    if (layers_done == (layers_total + 1) / 2) services_.injector.At(point, iteration, action);
  };
}

void ActionRunner::Hold(const Action& action, int iteration) {
  if (services_.pacer == nullptr) return;
  services_.pacer->Hold(action.kind, services_.injector.SlowFactor());
  const Disturbance* const disturbance = FindDisturbance(action, iteration);
  if (disturbance != nullptr) services_.pacer->Spend(disturbance->delay);
}

const Disturbance* ActionRunner::FindDisturbance(const Action& action, int iteration) const {
  for (const Disturbance& disturbance : options_.disturbances) {
    if (disturbance.worker == options_.worker && disturbance.iteration == iteration &&
        disturbance.action == action) {
      return &disturbance;
    }
  }
  return nullptr;
}

StatusOr<ActionTimes> ActionRunner::Run(const Action& action, int iteration,
                                        MicroBatchResults& results) {
  RC_CHECK(action.stage == options_.worker.stage) << action << " on worker " << options_.worker;
  ActionTimes times;
  switch (action.kind) {
    case ActionKind::kForward: {
      RC_ASSIGN_OR_RETURN(times.start, Forward(action, iteration, IndexOf(action), &results));
      break;
    }
    case ActionKind::kBackwardInput: {
      RC_ASSIGN_OR_RETURN(times.start, BackwardInput(action, iteration, IndexOf(action)));
      break;
    }
    case ActionKind::kBackwardWeight:
      times.start = NoteStart();
      BackwardWeight(action, iteration);
      Hold(action, iteration);
      break;
    case ActionKind::kBackward: {
      RC_ASSIGN_OR_RETURN(times.start, BackwardInput(action, iteration, IndexOf(action)));
      BackwardWeight(action, iteration);
      break;
    }
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      RC_CHECK(false) << action << " has no micro-batch";
  }
  if (!options_.unprotected) services_.ledger.Record(iteration, action);
  times.end = services_.clock.Now();
  return times;
}

StatusOr<ActionTimes> ActionRunner::Regenerate(const Action& action, int iteration,
                                               bool backward_follows, bool beside_next) {
  RC_CHECK(action.kind == ActionKind::kForward || action.kind == ActionKind::kBackwardInput)
      << action << " is no regeneration";
  const int stash =
      IndexOf(action) + (beside_next ? options_.parallel.data * options_.micro_batches : 0);
  ActionTimes times;
  bool keep_stash = false;
  if (action.kind == ActionKind::kForward) {
    RC_ASSIGN_OR_RETURN(times.start, Forward(action, iteration, stash, /*results=*/nullptr));
    keep_stash = backward_follows;
  } else {
    RC_ASSIGN_OR_RETURN(times.start, BackwardInput(action, iteration, stash));
  }
  if (keep_stash) {
    regenerated_.insert(stash);
  } else {
    services_.model.ForgetMicroBatch(stash);
    regenerated_.erase(stash);
  }
  times.end = services_.clock.Now();
  return times;
}

void ActionRunner::ForgetRegenerated() {
  for (const int stash : regenerated_) services_.model.ForgetMicroBatch(stash);
  regenerated_.clear();
}

TimePoint ActionRunner::NoteStart() {
  services_.watch.Start();
  return services_.clock.Now();
}

StatusOr<TimePoint> ActionRunner::Forward(const Action& action, int iteration, int stash,
                                          MicroBatchResults* results) {
  std::optional<NormRider> below;
  RC_ASSIGN_OR_RETURN(ForwardInput in,
                      PrepareForward(action, FrameKind::kActivation, iteration, below));
  const TimePoint start = NoteStart();
  in.stash = stash;
  in.hook = HookFor(FaultPoint::kForward, iteration, action);
  const at::Tensor output = services_.model.Forward(in);
  Hold(action, iteration);
  if (is_last()) {
    services_.norms.NoteTotal(iteration, below);
    if (results != nullptr) RecordLoss(action, output, *results);
  } else {
    const BoundaryTensor tensor{.kind = BoundaryKind::kActivation,
                                .stage = StageId(action.stage.value() + 1),
                                .micro_batch = action.micro_batch};
    PassOn(action, tensor, iteration, output, services_.norms.RiderUp(iteration, below));
  }
  return start;
}

Status ActionRunner::Evaluate(const Action& forward, int iteration, MicroBatchResults& results) {
  std::optional<NormRider> below;
  RC_ASSIGN_OR_RETURN(ForwardInput in,
                      PrepareForward(forward, FrameKind::kValidation, iteration, below));
  in.evaluate = true;
  const at::Tensor output = services_.model.Forward(in);
  Hold(forward, iteration);
  if (is_last()) {
    RecordLoss(forward, output, results);
    return OkStatus();
  }
  const StageId above(forward.stage.value() + 1);
  const std::optional<WorkerId> receiver =
      routes_->ConsumerOf({BoundaryKind::kActivation, above, forward.micro_batch});
  RC_CHECK(receiver.has_value()) << "nobody runs " << forward.micro_batch << " at stage " << above;
  const FrameKey key{.iteration = iteration,
                     .kind = FrameKind::kValidation,
                     .stage = above,
                     .micro_batch = in.micro_batch};
  return Send(forward, *receiver, key,
              std::make_shared<const std::vector<std::byte>>(ToBytes(output, 0)));
}

StatusOr<ForwardInput> ActionRunner::PrepareForward(const Action& action, FrameKind kind,
                                                    int iteration,
                                                    std::optional<NormRider>& below) {
  ForwardInput in{.iteration = iteration,
                  .micro_batch = IndexOf(action),
                  .input = {},
                  .targets = {},
                  .evaluate = false,
                  .stash = std::nullopt,
                  .hook = {}};
  if (is_first() || is_last()) {
    Batch batch = kind == FrameKind::kValidation
                      ? services_.batches.Validation(in.micro_batch)
                      : services_.batches.Training(iteration, in.micro_batch);
    if (is_first()) in.input = std::move(batch.tokens_BT);
    if (is_last()) in.targets = std::move(batch.targets_BT);
  }
  if (is_first()) {
    below = NormRider();
  } else {
    RC_ASSIGN_OR_RETURN(Received received, Receive(action, kind, iteration));
    in.input = std::move(received.tensor);
    below = received.rider;
  }
  return in;
}

void ActionRunner::RecordLoss(const Action& action, const at::Tensor& loss,
                              MicroBatchResults& results) const {
  const std::int64_t tokens =
      static_cast<std::int64_t>(options_.micro_batch_size) * options_.model.sequence;
  results.Record(IndexOf(action), options_.worker.pipeline, static_cast<double>(loss.item<float>()),
                 tokens);
}

StatusOr<TimePoint> ActionRunner::BackwardInput(const Action& action, int iteration, int stash) {
  at::Tensor gradient;
  if (!is_last()) {
    RC_ASSIGN_OR_RETURN(Received received, Receive(action, FrameKind::kGradient, iteration));
    gradient = std::move(received.tensor);
    if (const std::optional<NormRider>& verdict = received.rider) {
      services_.norms.Note({.iteration = iteration - 1,
                            .squared_norm = verdict->squared,
                            .stop = verdict->stop,
                            .corrects = false});
    }
  }
  const TimePoint start = NoteStart();
  const at::Tensor input_gradient = services_.model.BackwardInput(
      stash, gradient, HookFor(FaultPoint::kBackwardInput, iteration, action));
  Hold(action, iteration);
  if (!is_first()) {
    const BoundaryTensor tensor{.kind = BoundaryKind::kGradient,
                                .stage = StageId(action.stage.value() - 1),
                                .micro_batch = action.micro_batch};
    PassOn(action, tensor, iteration, input_gradient, services_.norms.RiderDown(iteration));
  }
  return start;
}

void ActionRunner::BackwardWeight(const Action& action, int iteration) {
  services_.quanta.Open(iteration);
  services_.model.BackwardWeight(IndexOf(action),
                                 HookFor(FaultPoint::kBackwardWeight, iteration, action));
}

StatusOr<ActionRunner::Received> ActionRunner::Receive(const Action& action, FrameKind kind,
                                                       int iteration) {
  services_.injector.At(FaultPoint::kRecv, iteration, action);
  const FrameKey key{.iteration = iteration,
                     .kind = kind,
                     .stage = options_.worker.stage,
                     .micro_batch = IndexOf(action)};
  RC_ASSIGN_OR_RETURN(Frame frame, services_.network.Take(key));
  const std::array<std::int64_t, 3> shape = {options_.micro_batch_size, options_.model.sequence,
                                             options_.model.hidden};
  const std::size_t tensor_bytes =
      static_cast<std::size_t>(c10::multiply_integers(shape)) * sizeof(float);
  RC_CHECK(frame.payload.size() == tensor_bytes + (IsBoundary(kind) ? kRiderBytes : 0))
      << ToString(key) << " has " << frame.payload.size() << " bytes";
  Received received;
  if (IsBoundary(kind)) {
    received.rider = DecodeRider(
        std::span<const std::byte>(frame.payload).subspan(tensor_bytes).first<kRiderBytes>());
  }
  received.tensor = ToTensor(std::move(frame.payload), shape);
  return received;
}

// Logs, and sends to the consumer if there is one. A consumer that is gone is no error here: the
// coordinator hears of it from the link, and the log has what the next one needs.
void ActionRunner::PassOn(const Action& action, const BoundaryTensor& tensor, int iteration,
                          const at::Tensor& value, const std::optional<NormRider>& rider) {
  const FrameKey key = ToFrameKey(tensor, iteration, options_.micro_batches);
  std::vector<std::byte> bytes = ToBytes(value, kRiderBytes);
  const auto behind = EncodeRider(rider);
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  const SharedBytes payload = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  if (!options_.unprotected) services_.log.Keep(key, payload);
  const std::optional<WorkerId> consumer = routes_->ConsumerOf(tensor);
  if (!consumer.has_value()) return;
  const Status sent = Send(action, *consumer, key, payload);
  if (!sent.ok()) LogInfo("only logged: {}: {}", ToString(key), std::string(sent.message()));
}

Status ActionRunner::Send(const Action& action, WorkerId to, const FrameKey& key,
                          SharedBytes payload) {
  const Disturbance* const disturbance = FindDisturbance(action, key.iteration);
  if (disturbance != nullptr && disturbance->swallowed) return OkStatus();
  SendHook hook;
  if (services_.injector.Armed(FaultPoint::kSend)) {
    hook = [this, iteration = key.iteration, action] {
      services_.injector.At(FaultPoint::kSend, iteration, action);
    };
  }
  return services_.network.Send(to, key, std::move(payload), std::move(hook));
}

Status ActionRunner::Resend(const BoundaryTensor& tensor, int iteration, WorkerId to) {
  const FrameKey key = ToFrameKey(tensor, iteration, options_.micro_batches);
  RC_ASSIGN_OR_RETURN(SharedBytes payload, services_.log.Find(key));
  const Status sent = services_.network.Send(to, key, std::move(payload));
  if (!sent.ok()) LogInfo("not sent again: {}: {}", ToString(key), std::string(sent.message()));
  return OkStatus();
}

}  // namespace recycle
