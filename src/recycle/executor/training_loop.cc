#include "recycle/executor/training_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/base/log.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/executor/checkpoint_reader.h"

namespace recycle {
namespace {

// The generation is over, the worker is not.
bool EndsGenerationOnly(const Status& status) {
  return status.ok() || status.code() == StatusCode::kAborted ||
         status.code() == StatusCode::kUnavailable;
}

Status Interrupted() { return absl::AbortedError("interrupted between two actions"); }

bool Contains(const std::vector<Action>& actions, const Action& action) {
  return std::find(actions.begin(), actions.end(), action) != actions.end();
}

bool Steps(const WorkerSchedule& schedule) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(),
                     [](const Action& action) { return action.kind == ActionKind::kStep; });
}

// The highest version of all workers when the generation begins.
int HighestVersion(const Resume& resume) {
  if (resume.open.empty()) return resume.next_iteration;
  const OpenIteration& last = resume.open.back();
  const Schedule& workers = last.rest->workers;
  return last.iteration + (std::all_of(workers.begin(), workers.end(), Steps) ? 0 : 1);
}

Status DoesNotFit(const Resume& resume, const std::string& why) {
  return absl::InternalError(
      fmt::format("Resume of generation {} does not fit: {}", resume.generation.value(), why));
}

}  // namespace

TrainingLoop::TrainingLoop(const ExecutorOptions& options, const TrainingServices& services,
                           const BatchSource& batches, StageModel& model)
    : options_(options),
      services_(services),
      model_(model),
      log_(options.log_bytes, options.log_folder),
      quanta_(options, norms_),
      runner_(options, {model, batches, services.network, services.injector, services.clock,
                        services.position.watch, log_, ledger_, norms_, quanta_, services.pacer}),
      step_(options, model, services.network, services.injector, norms_, quanta_),
      results_(options.parallel.data * options.micro_batches),
      checkpoints_(options, services.control, services.injector),
      trace_(options.trace_file, options.pace ? options.pace->time_scale : 1),
      costs_(options.measure_costs) {
  services_.network.SetHopHook([this](int hop) {
    if (hop == options_.all_reduce_fault_hop) {
      services_.injector.At(FaultPoint::kAllReduce, step_.version());
    }
  });
  services_.transfers.Attach(step_);
  services_.injector.SetCorrupter([this] { step_.FlipBit(); });
  if (services_.profile.on()) BeginProfile();
}

void TrainingLoop::BeginProfile() {
  meter_.emplace();
  std::int64_t parameter_bytes = 0;
  std::int64_t state_bytes = 0;
  for (const ParameterState& parameter : step_.state()) {
    parameter_bytes += static_cast<std::int64_t>(parameter.value.size_bytes());
    state_bytes += static_cast<std::int64_t>(StateBytes(parameter));
  }
  services_.profile.WriteState(parameter_bytes, state_bytes);
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
  runner_.ForgetRegenerated();
  if (prepare.restore) {
    RC_RETURN_IF_ERROR(Restore(prepare));
    services_.transfers.NoteRestored();
  } else if (services_.transfers.is_joiner()) {
    RC_RETURN_IF_ERROR(TakeOverState());
  }
  services_.transfers.Admit(prepare.members, step_, owes_validation_);
  RC_ASSIGN_OR_RETURN(Endpoints endpoints, services_.network.Open(prepare));
  services_.injector.At(FaultPoint::kRegroup, step_.version());
  services_.control.Send(MakeLedger(prepare.generation, std::move(endpoints)));
  RC_ASSIGN_OR_RETURN(Resume resume, services_.mailbox.WaitForResume());
  if (prepare.restore) {
    services_.snapshots.StartOver(prepare.from_memory ? prepare.restore : std::nullopt);
  }
  ApplyVerdicts(resume.verdicts);
  ApplyQuanta(resume.quanta);
  RC_RETURN_IF_ERROR(services_.network.Connect(resume));
  return resume;
}

Status TrainingLoop::Restore(const Prepare& prepare) {
  const int version = *prepare.restore;
  checkpoints_.Flush();  // what is said of it must come before the ledger
  const StatusOr<OptimizerStep::Scalars> loaded = LoadRestored(version, prepare.from_memory);
  if (!loaded.ok()) {
    services_.control.Send(RestoreFailed{.generation = prepare.generation,
                                         .version = version,
                                         .error = std::string(loaded.status().message())});
    return absl::AbortedError(loaded.status().message());
  }
  LogInfo("goes on from the {} of iteration {}",
          prepare.from_memory ? "snapshot in memory" : "checkpoint", version);
  step_.Restore(*loaded);
  model_.ForgetMicroBatches();
  ledger_.Clear();
  log_.Clear();
  results_.Clear();
  services_.network.StartOver(prepare.generation, version);
  services_.position.version = version;
  unreported_.reset();
  owes_validation_ = false;
  compare_state_at_.reset();
  return OkStatus();
}

StatusOr<OptimizerStep::Scalars> TrainingLoop::LoadRestored(int version, bool from_memory) {
  OptimizerStep::Scalars scalars{.version = version};
  std::optional<double> squared_norm;
  if (from_memory) {
    RC_ASSIGN_OR_RETURN(squared_norm, services_.snapshots.Restore(version, step_));
  } else {
    const std::string path = CheckpointFolder(options_.checkpoint_folder).Path(version);
    RC_ASSIGN_OR_RETURN(squared_norm, LoadState(path, step_));
    checkpoints_.NoteRestored(version);
  }
  if (squared_norm) {
    scalars.verdict = Verdict{.iteration = version - 1, .squared_norm = *squared_norm};
  }
  return scalars;
}

Status TrainingLoop::TakeOverState() {
  RC_ASSIGN_OR_RETURN(owes_validation_, services_.transfers.TakeState());
  LogInfo("comes back at iteration {}", step_.version() + 1);
  services_.position.version = step_.version();
  DropClosed();
  return OkStatus();
}

Ledger TrainingLoop::MakeLedger(Generation generation, Endpoints endpoints) {
  const std::vector<FrameKey> received = services_.network.Promise(generation);
  std::map<int, IterationLedger> report =
      ledger_.Report(received, log_.keys(), options_.micro_batches);
  const bool holds_stage_part = step_.Holds(ReducedPart::kStage);
  const bool holds_tied_part = step_.Holds(ReducedPart::kTied);
  if (holds_stage_part || holds_tied_part) {
    IterationLedger& current = report[step_.version()];
    current.iteration = step_.version();
    current.holds_stage_part = holds_stage_part;
    current.holds_tied_part = holds_tied_part;
  }
  Ledger ledger{.generation = generation,
                .version = step_.version(),
                .validated = step_.validated(),
                .verdicts = norms_.verdicts(),
                .quanta = quanta_.learnt(),
                .outgrown = quanta_.outgrown(),
                .owes_validation = owes_validation_,
                .iterations = {},
                .undo = {},
                .endpoints = std::move(endpoints),
                .snapshots = services_.snapshots.held()};
  if (step_.holds_undo()) ledger.undo.push_back(step_.version() - 1);
  for (auto& [iteration, entry] : report) ledger.iterations.push_back(std::move(entry));
  return ledger;
}

Status TrainingLoop::RunGeneration(const Resume& resume) {
  plan_ = resume.plan;
  if (services_.pacer != nullptr) services_.pacer->CatchUp();
  schedule_ = FindWorker(plan_->workers, options_.worker);
  if (schedule_ == nullptr) return DoesNotFit(resume, "this worker is not in the plan");
  routes_.emplace(*plan_, options_.worker.stage);
  if (resume.compare_state) compare_state_at_ = resume.next_iteration + 1;
  for (const OpenIteration& open : resume.open) RC_RETURN_IF_ERROR(SetOut(open));
  SaveIfDue();
  services_.position.generation = resume.generation.value();
  services_.control.Send(Resumed{.generation = resume.generation});
  LogInfo("generation {} runs: {} open iterations, whole ones from {}", resume.generation.value(),
          resume.open.size(), resume.next_iteration + 1);
  RC_RETURN_IF_ERROR(RunOpenIterations(resume));
  if (!IsOver() && step_.version() != resume.next_iteration) {
    return DoesNotFit(resume, fmt::format("version {} where iteration {} begins", step_.version(),
                                          resume.next_iteration));
  }
  while (!IsOver()) {
    if (const std::optional<Drain> drain = services_.mailbox.TakeDrain()) return Depart(*drain);
    RC_RETURN_IF_ERROR(RunWholeIteration());
  }
  SendFinished();
  return OkStatus();
}

Status TrainingLoop::Depart(const Drain& drain) {
  checkpoints_.Flush();
  services_.control.Send(Departing{.version = step_.version(), .next = drain.next});
  return absl::AbortedError("asked to leave");
}

bool TrainingLoop::IsOver() const {
  return step_.version() == options_.iterations || step_.stop_agreed();
}

Status TrainingLoop::SetOut(const OpenIteration& open) {
  const std::vector<StageId>& committed = open.rest->committed;
  const bool is_open =
      std::find(committed.begin(), committed.end(), options_.worker.stage) == committed.end();
  if (is_open && open.iteration == step_.version()) step_.DiscardReduced();
  for (const Resend& resend : open.resends) {
    if (resend.from != options_.worker) continue;
    RC_RETURN_IF_ERROR(runner_.Resend(resend.tensor, open.iteration, resend.to));
  }
  return OkStatus();
}

// The validation pass comes right after a step, before anything else of the next iteration. After
// the highest version's step, which some workers may have made earlier, all make it (again) if
// Resume says so.
Status TrainingLoop::RunOpenIterations(const Resume& resume) {
  const int highest = HighestVersion(resume);
  const bool repeat = resume.repeat_validation && IsValidationDue(highest - 1);
  for (const OpenIteration& open : resume.open) {
    if (open.iteration > step_.version()) {
      return DoesNotFit(resume,
                        fmt::format("iteration {} at version {}", open.iteration, step_.version()));
    }
    if (open.iteration == highest) RC_RETURN_IF_ERROR(CloseLastIteration(repeat));
    RC_RETURN_IF_ERROR(RunRest(open));
  }
  const int version = step_.version();
  return CloseLastIteration(version == highest ? repeat : IsValidationDue(version - 1));
}

Status TrainingLoop::RunRest(const OpenIteration& open) {
  const WorkerSchedule* own = FindWorker(open.rest->workers, options_.worker);
  if (own == nullptr) return absl::InternalError("this worker is not in the rest of an iteration");
  const Routes routes(*open.rest, options_.worker.stage);
  runner_.SetRoutes(&routes);
  BeginAttempt(open.iteration);
  for (const Action& action : own->actions) {
    if (services_.mailbox.interrupted()) return Interrupted();
    RC_RETURN_IF_ERROR(RunRestAction(open, *own, action));
  }
  return OkStatus();
}

Status TrainingLoop::RunRestAction(const OpenIteration& open, const WorkerSchedule& own,
                                   const Action& action) {
  const std::vector<StageId>& committed = open.rest->committed;
  const bool is_committed =
      std::find(committed.begin(), committed.end(), action.stage) != committed.end();
  const bool is_past = open.iteration < step_.version();
  if (is_committed && HasMicroBatch(action.kind)) return Regenerate(open, own, action);
  if (is_committed && action.kind == ActionKind::kReduceGrad) {
    return Traced(action, open.iteration, /*regenerated=*/false,
                  [&] { return Timed([&] { return TakePart(open); }); });
  }
  if (is_past && action.kind == ActionKind::kValidate) {
    return Traced(action, open.iteration, /*regenerated=*/false,
                  [&] { return Timed([&] { return step_.ValidateAgain(); }); });
  }
  if (!is_past) return RunAction(action);
  return absl::InternalError(fmt::format("{} of iteration {} at version {}", ToString(action),
                                         open.iteration + 1, step_.version()));
}

// Who has stepped the iteration already does it with the parameters from before.
Status TrainingLoop::Regenerate(const OpenIteration& open, const WorkerSchedule& own,
                                const Action& action) {
  const Action backward{ActionKind::kBackwardInput, action.stage, action.micro_batch};
  const bool is_past = open.iteration < step_.version();
  if (is_past && (open.iteration + 1 != step_.version() || !step_.holds_undo())) {
    return absl::InternalError(
        fmt::format("{} of iteration {} at version {}: its parameters are not kept any more",
                    ToString(action), open.iteration + 1, step_.version()));
  }
  return Traced(action, open.iteration, /*regenerated=*/true, [&] {
    if (is_past) step_.SwapUndo();
    StatusOr<ActionTimes> times =
        runner_.Regenerate(action, open.iteration, Contains(own.actions, backward), is_past);
    if (is_past) step_.SwapUndo();
    return times;
  });
}

Status TrainingLoop::TakePart(const OpenIteration& open) {
  for (const HandOver& hand_over : open.hand_overs) {
    if (!step_.Concerns(hand_over)) continue;
    const bool is_tied = hand_over.part == ReducedPart::kTied;
    RC_RETURN_IF_ERROR(
        Meet(is_tied ? *services_.network.tied_group() : services_.network.stage_group()));
    RC_RETURN_IF_ERROR(step_.TakePart(hand_over, open.iteration));
    Hold(ActionKind::kReduceGrad);
  }
  return OkStatus();
}

Status TrainingLoop::RunWholeIteration() {
  const int iteration = step_.version();
  runner_.SetRoutes(&*routes_);
  BeginAttempt(iteration);
  if (const auto costs = costs_.TakeIfDone(iteration)) services_.control.Send(*costs);
  for (const Action& action : schedule_->actions) {
    if (services_.mailbox.interrupted()) return Interrupted();
    RC_RETURN_IF_ERROR(RunAction(action));
  }
  RC_CHECK(step_.version() == iteration + 1) << "the plan's queue has no STEP";
  return CloseLastIteration(IsValidationDue(iteration));
}

void TrainingLoop::BeginAttempt(int iteration) {
  attempts_.erase(attempts_.begin(), attempts_.lower_bound(step_.version() - 1));
  ++attempts_[iteration];
}

Status TrainingLoop::RunAction(const Action& action) {
  if (action.kind == ActionKind::kStep && staggered() && step_.IsSynchronous() &&
      !step_.holds_norm()) {
    const Action validate{ActionKind::kValidate, action.stage, {}};
    RC_RETURN_IF_ERROR(Traced(validate, step_.version(), /*regenerated=*/false,
                              [&] { return Timed([&] { return ValidateFirst(); }); }));
  }
  return Traced(action, step_.version(), /*regenerated=*/false, [&] {
    return HasMicroBatch(action.kind) ? RunOnModel(action)
                                      : Timed([&] { return RunStepAction(action.kind); });
  });
}

Status TrainingLoop::Traced(const Action& action, int iteration, bool regenerated,
                            const std::function<StatusOr<ActionTimes>()>& work) {
  const std::int64_t held = meter_ ? meter_->bytes() : 0;
  ActionWatch& watch = services_.position.watch;
  const StageCosts& planned = plan_->costs.stages[Index(action.stage.value())];
  watch.Expect(DurationOf(planned, action.kind));
  const Duration computed_before = costs_.on() ? ThreadCpuTime() : Duration();
  const StatusOr<ActionTimes> done = work();
  watch.Finish(done.ok() ? std::optional(done->end - done->start) : std::nullopt);
  RC_ASSIGN_OR_RETURN(const ActionTimes times, done);
  if (costs_.on() && !regenerated) {
    const bool is_paced = services_.pacer != nullptr;
    costs_.Note(action.kind, iteration,
                is_paced ? times.end - times.start : ThreadCpuTime() - computed_before, planned);
  }
  if (meter_) services_.profile.WriteHeld(action, iteration, meter_->bytes() - held);
  trace_.Write({.action = action,
                .iteration = iteration,
                .generation = services_.network.generation(),
                .start = times.start,
                .end = times.end,
                .attempt = attempts_.at(iteration),
                .regenerated = regenerated});
  return OkStatus();
}

StatusOr<ActionTimes> TrainingLoop::RunOnModel(const Action& action) {
  RC_ASSIGN_OR_RETURN(ActionTimes times, runner_.Run(action, step_.version(), results_));
  RC_RETURN_IF_ERROR(CheckSums());
  // F of this iteration ran on every stage, so everybody holds the gradient of the one before; and
  // the last stage runs no I before it has judged.
  const bool is_backward =
      action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackward;
  if (is_backward && staggered()) CloseIterationBefore();
  const double factor = services_.injector.SlowFactor();
  if (factor > 1.0 && services_.pacer == nullptr) {  // a pacer has held it
    const std::chrono::duration<double, std::nano> rest =
        (factor - 1.0) * (times.end - times.start);
    services_.mailbox.Pause(std::chrono::duration_cast<Duration>(rest));
    times.end = services_.clock.Now();
  }
  return times;
}

StatusOr<ActionTimes> TrainingLoop::Timed(const std::function<Status()>& work) {
  const TimePoint start = services_.clock.Now();
  RC_RETURN_IF_ERROR(work());
  return ActionTimes{.start = start, .end = services_.clock.Now()};
}

Status TrainingLoop::RunStepAction(ActionKind kind) {
  switch (kind) {
    case ActionKind::kReduceGrad:
      return ReduceGradient();
    case ActionKind::kValidate:
      return staggered() ? JudgeLastStep() : ValidateFirst();
    case ActionKind::kStep:
      return MakeStep();
    case ActionKind::kForward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kBackward:
      break;
  }
  RC_CHECK(false) << KindText(kind) << " belongs to the action runner";
  return OkStatus();
}

Status TrainingLoop::ReduceGradient() {
  if (staggered()) {
    RC_RETURN_IF_ERROR(step_.ShareVerdict());
    CloseIterationBefore();
  }
  RC_RETURN_IF_ERROR(Meet(services_.network.stage_group()));
  if (ReduceGroup* const tied = services_.network.tied_group()) RC_RETURN_IF_ERROR(Meet(*tied));
  const Status reduced = step_.Reduce(results_, services_.mailbox.stop_requested());
  RC_RETURN_IF_ERROR(CheckSums());
  RC_RETURN_IF_ERROR(reduced);
  Hold(ActionKind::kReduceGrad);
  return OkStatus();
}

Status TrainingLoop::Meet(ReduceGroup& group) {
  return services_.pacer == nullptr ? OkStatus() : services_.pacer->Meet(group);
}

void TrainingLoop::Hold(ActionKind kind) {
  if (services_.pacer != nullptr) services_.pacer->Hold(kind);
}

Status TrainingLoop::AwaitCheckpoint() {
  return checkpoints_.AwaitBeforeStep(step_.version(),
                                      [this] { return services_.mailbox.interrupted(); });
}

Status TrainingLoop::ValidateFirst() {
  RC_RETURN_IF_ERROR(AwaitCheckpoint());
  return step_.Validate();
}

Status TrainingLoop::MakeStep() {
  if (!step_.holds_norm()) RC_RETURN_IF_ERROR(AwaitCheckpoint());
  RC_RETURN_IF_ERROR(step_.Step(!staggered() || step_.IsSynchronous()));
  Hold(ActionKind::kStep);
  stepped_at_ = services_.clock.Now();
  owes_validation_ = IsValidationDue(step_.version() - 1);
  results_.Clear();
  ledger_.DropBefore(step_.version());
  services_.position.version = step_.version();
  if (!step_.validated()) return OkStatus();
  DropClosed();
  NoteValidated();
  return OkStatus();
}

Status TrainingLoop::JudgeLastStep() {
  if (step_.validated()) return OkStatus();
  const int judged = step_.version() - 1;
  services_.injector.At(FaultPoint::kValidate, judged);
  if (const std::optional<Verdict> correction = step_.Judge()) {
    services_.control.Send(
        Amend{.generation = services_.network.generation(), .verdict = *correction});
    return absl::AbortedError(fmt::format("the step of iteration {} was wrong", judged + 1));
  }
  if (step_.Settle()) NoteValidated();
  return OkStatus();
}

void TrainingLoop::ApplyVerdicts(const std::vector<Verdict>& verdicts) {
  const bool was_validated = step_.validated();
  if (const std::optional<int> void_from = step_.Apply(verdicts)) {
    DropWork(*void_from);
  }
  if (!was_validated && step_.validated()) NoteValidated();
}

void TrainingLoop::ApplyQuanta(const std::vector<Quantum>& quanta) {
  for (const Quantum& quantum : quanta) {
    if (quantum.stage != options_.worker.stage) continue;
    if (!quanta_.Learn(quantum, step_.version())) continue;
    step_.DiscardSums();
    DropWork(step_.version());
  }
}

void TrainingLoop::DropWork(int from) {
  LogInfo("what was done of iteration {} is void", from + 1);
  if (from == step_.version()) {
    model_.ForgetMicroBatches();
    ledger_.Clear();
    results_.Clear();
  }
  log_.DropFrom(from);
  services_.network.DropFrom(from);
}

Status TrainingLoop::CheckSums() {
  const std::optional<Quantum> coarser = quanta_.outgrown();
  if (!coarser) return OkStatus();
  services_.control.Send(
      Outgrown{.generation = services_.network.generation(), .quantum = *coarser});
  return absl::AbortedError(
      fmt::format("a gradient of iteration {} does not fit the sums", coarser->iteration + 1));
}

void TrainingLoop::CloseIterationBefore() {
  if (step_.Settle()) NoteValidated();
  RC_CHECK(step_.validated()) << "a gradient of iteration " << step_.version() + 1
                              << " came before the verdict of the one before";
  if (step_.holds_undo()) DropClosed();
}

void TrainingLoop::NoteValidated() {
  if (std::optional<IterationDone> report = step_.TakeReport()) unreported_ = std::move(report);
  services_.transfers.AfterStep(step_);
  services_.snapshots.Take(step_, /*anew=*/compare_state_at_ == step_.version());
  CompareStateIfDue();
  SaveIfDue();
  if (!IsValidationDue(step_.version() - 1)) Report(std::nullopt);
}

// Everything before `version` is closed: every live worker of every stage holds its gradient.
void TrainingLoop::DropClosed() {
  step_.Close();
  log_.DropBefore(step_.version());
  services_.network.DropBefore(step_.version());
}

void TrainingLoop::CompareStateIfDue() {
  const int version = step_.version();
  const bool is_regular = options_.compare_every > 0 && version % options_.compare_every == 0;
  if (!is_regular && compare_state_at_ != version) return;
  compare_state_at_.reset();
  services_.control.Send(StateHash{.version = version, .hash = step_.HashState()});
}

void TrainingLoop::SaveIfDue() {
  checkpoints_.Save(services_.network.generation(), services_.network.members(), step_);
}

bool TrainingLoop::IsValidationDue(int iteration) const {
  const int every = options_.validate_every;
  return iteration >= 0 && every > 0 && (iteration + 1) % every == 0;
}

Status TrainingLoop::CloseLastIteration(bool validate) {
  std::optional<double> validation_loss;
  if (validate) {
    RC_ASSIGN_OR_RETURN(validation_loss, ValidationLoss(step_.version() - 1));
  }
  owes_validation_ = false;
  Report(validation_loss);
  return OkStatus();
}

void TrainingLoop::Report(std::optional<double> validation_loss) {
  if (!unreported_.has_value()) return;
  unreported_->generation = services_.network.generation();
  unreported_->validation_loss = validation_loss;
  unreported_->stepped_at = stepped_at_;
  services_.control.Send(*unreported_);
  unreported_.reset();
}

StatusOr<std::optional<double>> TrainingLoop::ValidationLoss(int iteration) {
  MicroBatchResults own(options_.parallel.data * options_.micro_batches);
  runner_.SetRoutes(&*routes_);
  for (const Action& action : schedule_->actions) {
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
  checkpoints_.Flush();
  services_.injector.ReportUnfired();
  services_.control.Send(Finished{.version = step_.version(),
                                  .parameter_sha256 = step_.ParameterHashes(),
                                  .link_bytes = services_.network.link_bytes_sent()});
}

}  // namespace recycle
