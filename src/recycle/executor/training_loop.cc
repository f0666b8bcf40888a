#include "recycle/executor/training_loop.h"

#include <fmt/format.h>

#include <numeric>

#include "recycle/base/check.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

// The generation is over, the worker is not.
bool EndsGenerationOnly(const Status& status) {
  return status.ok() || status.code() == StatusCode::kAborted ||
         status.code() == StatusCode::kUnavailable;
}

Status Interrupted() { return absl::AbortedError("interrupted between two actions"); }

}  // namespace

TrainingLoop::TrainingLoop(const ExecutorOptions& options, const TrainingServices& services,
                           const BatchSource& batches, StageModel& model)
    : options_(options),
      services_(services),
      runner_(options, model, batches, services.network, services.injector, services.clock),
      step_(options, model, services.network, services.injector),
      results_(options.parallel.data * options.micro_batches),
      trace_(options.trace_file) {
  services_.network.SetHopHook([this](int hop) {
    if (hop == 1) services_.injector.At(FaultPoint::kAllReduce, step_.version());
  });
}

Status TrainingLoop::Run() {
  for (;;) {
    RC_ASSIGN_OR_RETURN(const Prepare prepare, services_.mailbox.WaitForPrepare());
    const StatusOr<Resume> resume = Regroup(prepare);
    const Status status = resume.ok() ? RunGeneration(*resume) : resume.status();
    if (status.ok()) continue;
    LogInfo("generation {} ends here at iteration {}: {}", prepare.generation.value(),
            step_.version() + 1, std::string(status.message()));
    if (!EndsGenerationOnly(status)) return status;
  }
}

StatusOr<Resume> TrainingLoop::Regroup(const Prepare& prepare) {
  LogInfo("generation {}: {} live workers; {}", prepare.generation.value(), prepare.members.size(),
          prepare.reason);
  RC_ASSIGN_OR_RETURN(Endpoints endpoints, services_.network.Open(prepare));
  services_.injector.At(FaultPoint::kRegroup, step_.version());
  services_.control.Send(Ledger{.generation = prepare.generation,
                                .version = step_.version(),
                                .holds_norm = step_.holds_norm(),
                                .endpoints = std::move(endpoints)});
  RC_ASSIGN_OR_RETURN(Resume resume, services_.mailbox.WaitForResume());
  RC_RETURN_IF_ERROR(services_.network.Connect(resume));
  return resume;
}

Status TrainingLoop::RunGeneration(const Resume& resume) {
  plan_ = resume.plan;
  const WorkerSchedule* schedule = FindWorker(plan_->workers, options_.worker);
  const bool is_current = resume.iteration == step_.version();
  const bool is_past = resume.finish_step && resume.iteration == step_.version() - 1;
  if (schedule == nullptr || !(is_current || is_past)) {
    return absl::InternalError(
        fmt::format("Resume of generation {} does not fit: iteration {} at version {}, {} in plan",
                    resume.generation.value(), resume.iteration, step_.version(),
                    schedule == nullptr ? "absent" : "present"));
  }
  queue_ = &schedule->actions;
  runner_.StartPlan(*plan_);
  services_.progress.generation = resume.generation.value();
  services_.control.Send(Resumed{.generation = resume.generation});
  LogInfo("generation {} runs: {} iteration {}", resume.generation.value(),
          resume.finish_step ? "finishing" : "starting", resume.iteration + 1);
  if (resume.finish_step) RC_RETURN_IF_ERROR(FinishStep(resume.iteration));
  for (;;) {
    step_.StartOver();
    RC_RETURN_IF_ERROR(CloseLastIteration());
    if (IsOver()) break;
    RC_RETURN_IF_ERROR(RunIteration());
  }
  SendFinished();
  return OkStatus();
}

bool TrainingLoop::IsOver() const {
  return step_.version() == options_.iterations || step_.stop_agreed();
}

Status TrainingLoop::FinishStep(int iteration) {
  if (iteration < step_.version()) return step_.ValidateAgain();
  for (const ActionKind kind : {ActionKind::kValidate, ActionKind::kStep}) {
    const Action action{.kind = kind, .stage = options_.worker.stage, .micro_batch = {}};
    RC_RETURN_IF_ERROR(RunAction(action));
  }
  return OkStatus();
}

Status TrainingLoop::RunIteration() {
  results_.Clear();
  attempt_ = attempted_ == step_.version() ? attempt_ + 1 : 1;
  attempted_ = step_.version();
  for (const Action& action : *queue_) {
    if (services_.mailbox.interrupted()) return Interrupted();
    RC_RETURN_IF_ERROR(RunAction(action));
  }
  RC_CHECK(step_.version() == attempted_ + 1) << "the plan's queue has no STEP";
  return OkStatus();
}

Status TrainingLoop::RunAction(const Action& action) {
  const int iteration = step_.version();
  RC_ASSIGN_OR_RETURN(const ActionTimes times, Execute(action));
  trace_.Write({.action = action,
                .iteration = iteration,
                .generation = services_.network.generation(),
                .start = times.start,
                .end = times.end,
                .attempt = attempt_});
  return OkStatus();
}

StatusOr<ActionTimes> TrainingLoop::Execute(const Action& action) {
  if (HasMicroBatch(action.kind)) {
    RC_ASSIGN_OR_RETURN(ActionTimes times, runner_.Run(action, step_.version(), results_));
    const double factor = services_.injector.SlowFactor();
    if (factor > 1.0) {
      const std::chrono::duration<double, std::nano> rest =
          (factor - 1.0) * (times.end - times.start);
      services_.mailbox.Pause(std::chrono::duration_cast<Duration>(rest));
      times.end = services_.clock.Now();
    }
    return times;
  }
  const TimePoint start = services_.clock.Now();
  RC_RETURN_IF_ERROR(ExecuteStepAction(action.kind));
  return ActionTimes{.start = start, .end = services_.clock.Now()};
}

Status TrainingLoop::ExecuteStepAction(ActionKind kind) {
  switch (kind) {
    case ActionKind::kReduceGrad:
      return step_.Reduce(results_, services_.mailbox.stop_requested());
    case ActionKind::kValidate:
      return step_.Validate();
    case ActionKind::kStep:
      MakeStep();
      return OkStatus();
    case ActionKind::kForward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kBackward:
      break;
  }
  RC_CHECK(false) << KindText(kind) << " belongs to the action runner";
  return OkStatus();
}

void TrainingLoop::MakeStep() {
  unreported_ = step_.Step();
  services_.progress.version = step_.version();
}

Status TrainingLoop::CloseLastIteration() {
  const int iteration = step_.version() - 1;
  const int every = options_.validate_every;
  std::optional<double> validation_loss;
  if (iteration >= 0 && every > 0 && (iteration + 1) % every == 0) {
    RC_ASSIGN_OR_RETURN(validation_loss, ValidationLoss(iteration));
  }
  if (!unreported_.has_value()) return OkStatus();
  unreported_->generation = services_.network.generation();
  unreported_->validation_loss = validation_loss;
  services_.control.Send(*unreported_);
  unreported_.reset();
  return OkStatus();
}

StatusOr<std::optional<double>> TrainingLoop::ValidationLoss(int iteration) {
  MicroBatchResults own(options_.parallel.data * options_.micro_batches);
  for (const Action& action : *queue_) {
    if (action.kind != ActionKind::kForward) continue;
    if (services_.mailbox.interrupted()) return Interrupted();
    RC_RETURN_IF_ERROR(runner_.Evaluate(action, iteration, own));
  }
  if (options_.worker.stage.value() + 1 != options_.parallel.num_stages()) {
    return std::optional<double>();
  }
  std::vector<double> sum(own.values().size());
  RC_RETURN_IF_ERROR(services_.network.stage_group().AllReduceSum(own.values(), sum));
  const std::int64_t tokens =
      static_cast<std::int64_t>(options_.micro_batch_size) * options_.model.sequence;
  RC_ASSIGN_OR_RETURN(const IterationResults results,
                      DecodeResults(sum, options_.micro_batches, tokens));
  double loss = 0;
  for (const MicroBatchResult& result : results.micro_batches) loss += result.loss_sum;
  return std::optional(loss / static_cast<double>(tokens * std::ssize(results.micro_batches)));
}

void TrainingLoop::SendFinished() {
  LogInfo("{} iterations are done", step_.version());
  services_.injector.ReportUnfired();
  services_.control.Send(Finished{.version = step_.version(),
                                  .parameter_sha256 = step_.ParameterHashes(),
                                  .link_bytes = services_.network.link_bytes_sent()});
}

}  // namespace recycle
