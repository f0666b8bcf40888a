#include "recycle/executor/action_runner.h"

#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>

#include "recycle/base/check.h"

namespace recycle {
namespace {

std::vector<std::byte> ToBytes(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  std::vector<std::byte> bytes(whole.nbytes());
  std::memcpy(bytes.data(), whole.data_ptr(), bytes.size());
  return bytes;
}

// The tensor keeps the payload alive.
at::Tensor ToTensor(std::vector<std::byte> payload, at::IntArrayRef shape) {
  auto* owned = new std::vector<std::byte>(std::move(payload));
  return at::from_blob(
      owned->data(), shape, [owned](void*) { delete owned; }, at::kFloat);
}

}  // namespace

ActionRunner::ActionRunner(const ExecutorOptions& options, StageModel& model,
                           const BatchSource& batches, PeerNetwork& network,
                           FaultInjector& injector, const Clock& clock)
    : options_(options),
      model_(model),
      batches_(batches),
      network_(network),
      injector_(injector),
      clock_(clock),
      num_stages_(options.parallel.num_stages()) {}

int ActionRunner::GlobalIndex(MicroBatch micro_batch) const {
  return micro_batch.home.value() * options_.micro_batches + micro_batch.index;
}

LayerHook ActionRunner::HookFor(FaultPoint point, int iteration, const Action& action) {
  if (!injector_.Armed(point)) return {};
  return [this, point, iteration, action](int layers_done, int layers_total) {
    if (layers_done == (layers_total + 1) / 2) injector_.At(point, iteration, action);
  };
}

StatusOr<ActionTimes> ActionRunner::Run(const Action& action, int iteration,
                                        MicroBatchResults& results) {
  RC_CHECK(action.stage == options_.worker.stage) << action << " on worker " << options_.worker;
  ActionTimes times;
  switch (action.kind) {
    case ActionKind::kForward: {
      RC_ASSIGN_OR_RETURN(times, Forward(action, iteration, results));
      break;
    }
    case ActionKind::kBackwardInput: {
      RC_ASSIGN_OR_RETURN(times, BackwardInput(action, iteration));
      break;
    }
    case ActionKind::kBackwardWeight:
      times.start = clock_.Now();
      BackwardWeight(action, iteration);
      break;
    case ActionKind::kBackward: {
      RC_ASSIGN_OR_RETURN(times, BackwardInput(action, iteration));
      BackwardWeight(action, iteration);
      break;
    }
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      RC_CHECK(false) << action << " has no micro-batch";
  }
  times.end = clock_.Now();
  return times;
}

StatusOr<ActionTimes> ActionRunner::Forward(const Action& action, int iteration,
                                            MicroBatchResults& results) {
  RC_ASSIGN_OR_RETURN(ForwardInput in, PrepareForward(action, FrameKind::kActivation, iteration));
  const TimePoint start = clock_.Now();
  in.hook = HookFor(FaultPoint::kForward, iteration, action);
  const at::Tensor output = model_.Forward(in);
  RC_RETURN_IF_ERROR(PassOn(action, FrameKind::kActivation, iteration, output, results));
  return ActionTimes{.start = start, .end = start};
}

Status ActionRunner::Evaluate(const Action& forward, int iteration, MicroBatchResults& results) {
  RC_ASSIGN_OR_RETURN(ForwardInput in, PrepareForward(forward, FrameKind::kValidation, iteration));
  in.evaluate = true;
  return PassOn(forward, FrameKind::kValidation, iteration, model_.Forward(in), results);
}

StatusOr<ForwardInput> ActionRunner::PrepareForward(const Action& action, FrameKind kind,
                                                    int iteration) {
  ForwardInput in{.iteration = iteration,
                  .micro_batch = GlobalIndex(action.micro_batch),
                  .input = {},
                  .targets = {},
                  .evaluate = false,
                  .hook = {}};
  if (is_first() || is_last()) {
    Batch batch = kind == FrameKind::kValidation ? batches_.Validation(in.micro_batch)
                                                 : batches_.Training(iteration, in.micro_batch);
    if (is_first()) in.input = std::move(batch.tokens_BT);
    if (is_last()) in.targets = std::move(batch.targets_BT);
  }
  if (!is_first()) {
    RC_ASSIGN_OR_RETURN(in.input, Receive(action, kind, iteration));
  }
  return in;
}

Status ActionRunner::PassOn(const Action& action, FrameKind kind, int iteration,
                            const at::Tensor& output, MicroBatchResults& results) {
  if (!is_last()) {
    return Send(action, StageId(action.stage.value() + 1), kind, iteration, output);
  }
  const std::int64_t tokens =
      static_cast<std::int64_t>(options_.micro_batch_size) * options_.model.sequence;
  results.Record(GlobalIndex(action.micro_batch), options_.worker.pipeline,
                 static_cast<double>(output.item<float>()), tokens);
  return OkStatus();
}

StatusOr<ActionTimes> ActionRunner::BackwardInput(const Action& action, int iteration) {
  at::Tensor gradient;
  if (!is_last()) {
    RC_ASSIGN_OR_RETURN(gradient, Receive(action, FrameKind::kGradient, iteration));
  }
  const TimePoint start = clock_.Now();
  const at::Tensor input_gradient =
      model_.BackwardInput(GlobalIndex(action.micro_batch), gradient,
                           HookFor(FaultPoint::kBackwardInput, iteration, action));
  if (!is_first()) {
    RC_RETURN_IF_ERROR(Send(action, StageId(action.stage.value() - 1), FrameKind::kGradient,
                            iteration, input_gradient));
  }
  return ActionTimes{.start = start, .end = start};
}

void ActionRunner::BackwardWeight(const Action& action, int iteration) {
  model_.BackwardWeight(GlobalIndex(action.micro_batch),
                        HookFor(FaultPoint::kBackwardWeight, iteration, action));
}

StatusOr<at::Tensor> ActionRunner::Receive(const Action& action, FrameKind kind, int iteration) {
  injector_.At(FaultPoint::kRecv, iteration, action);
  const FrameKey key{.iteration = iteration,
                     .kind = kind,
                     .stage = options_.worker.stage,
                     .micro_batch = GlobalIndex(action.micro_batch)};
  RC_ASSIGN_OR_RETURN(Frame frame, network_.Take(key));
  const std::array<std::int64_t, 3> shape = {options_.micro_batch_size, options_.model.sequence,
                                             options_.model.hidden};
  RC_CHECK(frame.payload.size() ==
           static_cast<std::size_t>(c10::multiply_integers(shape)) * sizeof(float))
      << ToString(key) << " has " << frame.payload.size() << " bytes";
  return ToTensor(std::move(frame.payload), shape);
}

Status ActionRunner::Send(const Action& action, StageId stage, FrameKind kind, int iteration,
                          const at::Tensor& tensor) {
  const std::optional<WorkerId> receiver = assignment_->WorkerOf(stage, action.micro_batch);
  RC_CHECK(receiver.has_value()) << "nobody runs " << action.micro_batch << " at stage " << stage;
  SendHook hook;
  if (injector_.Armed(FaultPoint::kSend)) {
    hook = [this, iteration, action] { injector_.At(FaultPoint::kSend, iteration, action); };
  }
  const FrameKey key{.iteration = iteration,
                     .kind = kind,
                     .stage = stage,
                     .micro_batch = GlobalIndex(action.micro_batch)};
  return network_.Send(*receiver, key, ToBytes(tensor), std::move(hook));
}

}  // namespace recycle
