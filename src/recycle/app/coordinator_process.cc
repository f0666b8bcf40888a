#include "recycle/app/coordinator_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>
#include <variant>

#include "recycle/app/agent.h"
#include "recycle/app/checkpoint_identity.h"
#include "recycle/app/commands.h"
#include "recycle/app/coordinator_fault.h"
#include "recycle/app/dry_run.h"
#include "recycle/app/executor_setup.h"
#include "recycle/app/job_conversion.h"
#include "recycle/app/job_security.h"
#include "recycle/app/job_store.h"
#include "recycle/app/leader_address.h"
#include "recycle/app/report_error.h"
#include "recycle/base/check.h"
#include "recycle/base/log.h"
#include "recycle/data/dataset.h"
#include "recycle/plan/timeline.h"
#include "recycle/planner/planner.h"
#include "recycle/planner/remainder.h"

namespace recycle {
namespace {

// How long executors may take to leave once the job is over: they have nothing left to do.
constexpr std::chrono::seconds kLeaveTimeout{3};
// A store that is out of order is tried again so often.
constexpr std::chrono::milliseconds kStoreRetry{50};
// Results are acknowledged so often: until then the workers keep them.
constexpr std::chrono::milliseconds kRecordedInterval{50};
constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::seconds kRefusalsInterval{10};

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// The sampler that tells which samples a micro-batch held; only with log.samples.
StatusOr<std::optional<Sampler>> SamplerOf(const JobConfig& config, const PreparedCorpus& corpus) {
  if (!config.log.samples) return std::optional<Sampler>();
  RC_ASSIGN_OR_RETURN(TokenFile tokens, TokenFile::Open(corpus.token_file, config.data.vocabulary));
  RC_ASSIGN_OR_RETURN(
      const Dataset dataset,
      Dataset::Create(std::move(tokens), config.model.sequence, config.data.validation));
  return std::optional<Sampler>(Sampler(dataset.num_train_samples(),
                                        config.parallel.data * config.batch.micro_batches,
                                        config.batch.micro_batch_size, config.train.seed));
}

// The shortest an etcd grants.
constexpr std::chrono::seconds kShortestLease{2};

// How long a leader among several may be silent before another one leads; nothing for a single one.
std::optional<Duration> LeaseOf(const JobConfig& config) {
  if (config.launch.coordinators == 1) return std::nullopt;
  const std::chrono::milliseconds silence(config.resilience.failure_timeout_ms);
  return std::max<Duration>(silence, kShortestLease);
}

// An etcd is waited for, however long: it was there when the job began. A file that cannot be used
// for as long as the failure timeout stays so.
StatusOr<JobRecords> TakeOver(Store& store, const JobConfig& config, const std::string& launch) {
  const TimePoint patience =
      SystemClock().Now() + std::chrono::milliseconds(config.resilience.failure_timeout_ms);
  for (;;) {
    const std::string id =
        fmt::format("process {} since {:.6f}", getpid(), SystemClock().UnixSeconds());
    StatusOr<JobRecords> records = JobRecords::TakeOver(
        store, {.id = id, .launch = launch, .lease = LeaseOf(config)}, SystemClock());
    const bool may_wait = config.resilience.store != "embedded" || SystemClock().Now() < patience;
    if (!may_wait || !absl::IsUnavailable(records.status())) return records;
    LogWarning("{}; trying again", std::string(records.status().message()));
    std::this_thread::sleep_for(kStoreRetry);
  }
}

// What the core has to know of earlier coordinators; nothing if none has stored a generation.
std::optional<Inheritance> InheritanceOf(const JobRecords& records, const RunHistory& history,
                                         const RunFolder& folder) {
  if (!records.inherited()) return std::nullopt;
  return Inheritance{.record = *records.inherited(),
                     .told = history.LastTold(folder),
                     .restored = history.RestoredIn(records.inherited()->generation),
                     .iterations_done = history.iterations_done(),
                     .last_loss = history.last_loss()};
}

}  // namespace

MakePlanFunction PlansOf(const JobConfig& config) {
  const double device_bytes = WorkerMemoryBytes(config);
  return [config, device_bytes,
          first = std::optional<Plan>()](const PlanQuestion& question) mutable -> StatusOr<Plan> {
    if (!first) {
      RC_ASSIGN_OR_RETURN(first, FirstPlan(config));
    }
    const bool is_first = question.failed == first->failed && question.slow.empty();
    if (is_first && question.measured.empty()) return *first;
    RC_ASSIGN_OR_RETURN(const PlanRequest request, PlanRequestOf(config, question, device_bytes));
    RC_ASSIGN_OR_RETURN(Plan plan, MakePlan(request));
    if (!is_first) return plan;
    Plan kept = *first;
    kept.costs = plan.costs;
    RC_ASSIGN_OR_RETURN(const PlanFigures figures, ComputeFigures(kept));
    if (*plan.period < figures.period) return plan;
    kept.makespan = figures.makespan;
    kept.period = figures.period;
    kept.lower_bound.reset();  // of other costs
    return kept;
  };
}

CoordinatorProcess::CoordinatorProcess(const RunFolder& folder, const JobConfig& config,
                                       const CoordinatorOptions& options, int report_fd,
                                       Estate estate, std::optional<Sampler> sampler,
                                       const PreparedCorpus& corpus)
    : folder_(folder),
      config_(config),
      clock_(SystemClock()),
      launcher_(report_fd),
      recorder_(config, folder, clock_, launcher_, std::move(sampler)),
      store_(std::move(estate.store)),
      records_(std::move(estate.records)),
      history_(std::move(estate.history)),
      core_(options, PlansOf(config), OrderRemainder,
            CanonicalParameterNames(ModelOptionsOf(config)),
            InheritanceOf(records_, history_, folder)),
      faults_(config.inject, folder, clock_),
      checkpoints_(folder.Checkpoints()) {
  if (config.checkpoint.every > 0) {
    committer_.emplace(
        CheckpointCommitter::Options{
            .folder = folder.Checkpoints(),
            .keep = config.checkpoint.keep,
            .num_layers = ModelOptionsOf(config).num_layers(),
            .identity = CheckpointIdentity(config, corpus),
            .at_point =
                [this, has_launcher = report_fd >= 0](CommitPoint point, int iteration) {
                  FireCommitFault(config_.inject, folder_, clock_, has_launcher, point, iteration);
                }},
        clock_, [this] { queue_.Push(TimePassed{}); });
  }
  PublishStatus();
}

CoordinatorProcess::~CoordinatorProcess() {
  if (!end_) return;  // another one leads, or will
  const StatusOr<LeaderAddress> leader = ReadLeaderAddress(folder_);
  if (leader.ok() && leader->term == records_.term()) unlink(folder_.Address().c_str());
}

StatusOr<std::unique_ptr<CoordinatorProcess>> CoordinatorProcess::Start(
    const RunFolder& folder, const JobConfig& config, const CoordinatorArguments& arguments) {
  CoordinatorOptions options = CoordinatorOptionsOf(config);
  RC_RETURN_IF_ERROR(options.Validate());
  RC_ASSIGN_OR_RETURN(const PreparedCorpus corpus, ReadCorpusFile(folder));
  RC_ASSIGN_OR_RETURN(std::optional<Sampler> sampler, SamplerOf(config, corpus));
  RC_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore(config, folder));
  RC_ASSIGN_OR_RETURN(JobRecords records, TakeOver(*store, config, arguments.launch));
  RC_ASSIGN_OR_RETURN(RunHistory history, RunHistory::Read(folder));
  options.last_generation = records.last_generation().value();
  if (arguments.resume_from > 0) options.checkpoints = true;
  if (arguments.resume_from > 0 && !records.inherited()) {
    options.restore_from = arguments.resume_from;
    RC_RETURN_IF_ERROR(CheckpointSource(folder.Checkpoints()).Begin(arguments.resume_from));
  }
  std::unique_ptr<CoordinatorProcess> process(new CoordinatorProcess(
      folder, config, options, arguments.report_fd,
      {std::move(store), std::move(records), std::move(history)}, std::move(sampler), corpus));
  process->faults_.At(FaultPoint::kStart, /*iteration=*/1);
  RC_RETURN_IF_ERROR(process->Listen());
  return process;
}

Status CoordinatorProcess::Listen() {
  // Now that it leads: it may have waited for long.
  RC_ASSIGN_OR_RETURN(const RpcSecurity security, LoadSecurity(config_));
  ControlServer::Handlers handlers;
  handlers.on_executor_message = [this](WorkerId worker, ExecutorMessage message) {
    queue_.Push(FromExecutor{worker, std::move(message)});
  };
  handlers.on_executor_closed = [this](WorkerId worker) { queue_.Push(StreamClosed{worker}); };
  handlers.on_agent_message = [this](int agent, AgentMessage message) {
    queue_.Push(FromAgent{std::move(message), agent});
  };
  handlers.on_agent_closed = [this](int agent) {
    queue_.Push(AgentLost{agent, WorkersOfAgent(config_, agent)});
  };
  handlers.status_json = [this] {
    const std::lock_guard lock(status_mutex_);
    return status_;
  };
  handlers.on_stop_wanted = [this] { queue_.Push(StopWanted{}); };
  handlers.on_drain_wanted = [this](WorkerId worker) { queue_.Push(DrainWanted{worker}); };
  RC_ASSIGN_OR_RETURN(server_,
                      ControlServer::Start(config_.launch.listen, security, std::move(handlers)));
  RC_RETURN_IF_ERROR(WriteLeaderAddress(folder_, {server_->address(), records_.term()}));
  LogInfo("leads in term {}, listens on {}", records_.term(), server_->address());
  launcher_.Send("address", Json{{"address", server_->address()}});
  return OkStatus();
}

ExitCode CoordinatorProcess::Run() {
  if (!records_.is_first()) recorder_.TakeUp(history_);
  recorder_.Begin({server_->address(), records_.term()}, records_.is_first());
  if (records_.inherited() && records_.inherited()->generation > history_.announced()) {
    recorder_.OnGenerationStored(*records_.inherited(),
                                 {.stored = clock_.Now(), .told = clock_.Now()});
  }
  if (records_.end()) {
    end_ = records_.end();
    if (records_.inherited()) leaving_ = records_.inherited()->members;
  } else if (!Lead()) {
    return LeaveFenced();
  }
  const bool in_order = end_->how == EndJob::How::kDone || end_->how == EndJob::How::kStopped;
  // Else nobody was told to leave, and the launcher ends them.
  if (in_order && !AwaitExits()) return LeaveFenced();
  if (committer_) committer_->Finish();
  if (in_order && !Tick()) return LeaveFenced();
  RecordCheckpoints();
  const bool every_fault_fired = recorder_.JobOver(*end_, CountTraffic());
  return CodeOf(*end_, every_fault_fired);
}

ExitCode CoordinatorProcess::LeaveFenced() {
  LogWarning("another coordinator leads: this one leaves");
  return ExitCode::kFenced;
}

bool CoordinatorProcess::Lead() {
  Apply(TimePassed{});  // the time to join begins
  while (!end_ && !lost_term_) {
    const std::optional<TimePoint> deadline = core_.NextDeadline();
    Wait(deadline);
    if (clock_.Now() >= next_tick_ && !Tick()) return false;
    HandleEvents();
    if (!end_ && deadline && clock_.Now() >= *deadline) Apply(TimePassed{});
    if (committing_ && clock_.Now() >= committing_->next_attempt) Commit();
    RecordCheckpoints();
    PublishStatus();
  }
  if (committing_ && !lost_term_) {  // the record of a lost stage: no time is left for the store
    committing_->since = TimePoint();
    Commit();
  }
  return !lost_term_;
}

// Before anything else whenever a tick has passed: a process that was frozen finds out here.
bool CoordinatorProcess::Tick() {
  if (absl::IsAborted(records_.Prove())) return false;
  launcher_.Send("alive", Json::object());
  const LeaderAddress own{server_->address(), records_.term()};
  // One that had lost its term already may have written the file late.
  if (const StatusOr<LeaderAddress> known = ReadLeaderAddress(folder_);
      !known.ok() || *known != own) {
    const Status written = WriteLeaderAddress(folder_, own);
    if (!written.ok()) LogWarning("{}", std::string(written.message()));
  }
  TellRefusals();
  next_tick_ = clock_.Now() + kTick;
  return true;
}

void CoordinatorProcess::Wait(std::optional<TimePoint> deadline) {
  TimePoint until = next_tick_;
  if (deadline) until = std::min(until, *deadline);
  if (committing_) until = std::min(until, committing_->next_attempt);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.Now()).count();
  const int timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, kTick.count()));
  const auto launcher_events =
      static_cast<short>(launcher_.wants_to_write() ? POLLIN | POLLOUT : POLLIN);
  pollfd ready[] = {{queue_.descriptor(), POLLIN, 0},
                    {launcher_.descriptor(), launcher_events, 0}};  // poll skips a negative one
  if (poll(ready, 2, timeout_ms) <= 0 || ready[1].revents == 0) return;
  if ((ready[1].revents & POLLOUT) != 0) launcher_.Flush();
  if ((ready[1].revents & ~POLLOUT) != 0 && launcher_.Receive() == LauncherLink::Received::kStop) {
    queue_.Push(StopWanted{});
  }
}

void CoordinatorProcess::HandleEvents() {
  for (const Event& event : queue_.Drain()) {
    if (clock_.Now() >= next_tick_ && !Tick()) lost_term_ = true;
    if (lost_term_) return;
    if (!end_) Apply(event);
    Note(event);
  }
}

void CoordinatorProcess::Apply(const Event& event) {
  const std::vector<Effect> effects = core_.Step(event, clock_.Now());
  for (const Effect& effect : effects) {
    if (const auto* end = std::get_if<EndJob>(&effect)) CommitEnd(*end);
  }
  if (lost_term_) return;
  for (const Effect& effect : effects) {
    if (const auto* send = std::get_if<SendTo>(&effect)) {
      server_->Send(send->worker, send->message);
    }
  }
  for (const Effect& effect : effects) CarryOut(effect);
}

void CoordinatorProcess::Commit() {
  const GenerationRecord& record = committing_->record;
  const Status stored = records_.Put(record, clock_.Now());
  const TimePoint stored_at = clock_.Now();
  if (absl::IsAborted(stored)) {
    lost_term_ = true;
    return;
  }
  // A store of this machine alone that stays out of order: its disk is full, or broken.
  const bool is_own = config_.resilience.store == "embedded" && config_.launch.coordinators == 1;
  const std::chrono::milliseconds patience(config_.resilience.failure_timeout_ms);
  const bool may_wait = !is_own || stored_at < committing_->since + patience;
  if (!stored.ok() && may_wait) {
    LogWarning("{}; trying again", std::string(stored.message()));
    committing_->next_attempt = stored_at + kStoreRetry;
    return;
  }
  const GenerationRecord durable = std::move(committing_->record);
  committing_.reset();
  const int iteration = core_.view().iteration + 1;
  faults_.At(FaultPoint::kStore, iteration);
  Apply(RecordStored{durable.generation});
  faults_.At(FaultPoint::kRegroup, iteration);
  recorder_.OnGenerationStored(durable, {.stored = stored_at, .told = clock_.Now()});
  // The disk is full, or broken. The workers know the generation, and a coordinator that comes
  // after this one hears of it from them: go on, and say it.
  if (!stored.ok()) {
    recorder_.Warn(fmt::format("the generation is not durable: {}", std::string(stored.message())));
  }
}

void CoordinatorProcess::CommitEnd(const EndJob& end) {
  if (end.how != EndJob::How::kDone && end.how != EndJob::How::kStopped) return;
  leaving_ = core_.view().live;
  const Status stored = records_.Put(end);
  lost_term_ = absl::IsAborted(stored);
  if (!stored.ok()) LogWarning("the end is not durable: {}", std::string(stored.message()));
}

void CoordinatorProcess::OnIteration(const AnnounceIteration& iteration) {
  recorder_.OnIteration(iteration);
  if (committer_) committer_->OnIteration(iteration.done.iteration + 1, MeanLoss(iteration.done));
  if (faults_.At(FaultPoint::kStep, iteration.done.iteration + 2)) recorder_.FaultsFired();
  if (clock_.Now() < told_recorded_ + kRecordedInterval) return;
  told_recorded_ = clock_.Now();
  for (const WorkerId worker : core_.view().live) {
    if (worker.stage.value() + 1 != config_.parallel.pipeline) continue;
    server_->Send(worker, Recorded{.iteration = iteration.done.iteration});
  }
}

void CoordinatorProcess::CarryOut(const Effect& effect) {
  std::visit(
      Overloaded{
          [](const SendTo& /*sent already*/) {},
          [this](const StoreRecord& store) {
            committing_ = {store.record, clock_.Now(), clock_.Now()};
            Commit();
          },
          [this](const AnnounceResumed& resumed) {
            recorder_.OnResumed(resumed);
            if (faults_.At(FaultPoint::kStep, resumed.iteration + 1)) recorder_.FaultsFired();
          },
          [this](const AnnounceIteration& iteration) { OnIteration(iteration); },
          [this](const AnnounceJoined& joined) { recorder_.OnJoined(joined); },
          [this](const AnnouncePlan& made) { recorder_.OnPlan(made); },
          [this](const AnnounceLinkRestored& restored) { recorder_.OnLinkRestored(restored); },
          [this](const AnnounceRejoin& news) { recorder_.OnRejoin(news); },
          [this](const AnnounceRoleChange& change) { recorder_.OnRoleChange(change); },
          [this](const AnnounceParked& parked) { recorder_.OnParked(parked); },
          [this](const AnnounceRollback& rollback) { recorder_.OnRollback(rollback); },
          [this](const AnnounceRedo& redo) { recorder_.OnRedo(redo); },
          [this](const AnnounceSkippedStep& skipped) { recorder_.OnSkippedStep(skipped); },
          [this](const AnnounceStraggler& straggler) { recorder_.OnStraggler(straggler); },
          [this](const AnnounceCosts& costs) { recorder_.OnCosts(costs); },
          [this](const AnnounceWarning& warning) { recorder_.Warn(warning.text); },
          [this](const AnnounceFault& /*its stamp says more*/) { recorder_.FaultsFired(); },
          [this](const AnnounceShard& announced) {
            if (committer_) committer_->OnShard(announced.shard);
          },
          [this](const ChooseCheckpoint& question) { Choose(question); },
          [this](const StartWorker& start) { Start(start); },
          [this](const AnnounceRestored& restored) { GoOnFrom(restored); },
          [this](const AnnounceSnapshot& snapshot) { recorder_.OnSnapshot(snapshot); },
          [this](const EndJob& end) { end_ = end; },
      },
      effect);
}

void CoordinatorProcess::Note(const Event& event) {
  if (const auto* from = std::get_if<FromExecutor>(&event)) {
    // It was told to leave by a coordinator that is gone, or on a stream that is.
    if (!leaving_.empty() && std::holds_alternative<Hello>(from->message)) {
      server_->Send(from->worker, Leave{});
    }
    if (const auto* finished = std::get_if<Finished>(&from->message)) {
      link_bytes_[from->worker] = finished->link_bytes;
    }
  }
  if (const auto* lost = std::get_if<AgentLost>(&event)) {
    exited_.insert(lost->workers.begin(), lost->workers.end());
  }
  const auto* from_agent = std::get_if<FromAgent>(&event);
  if (from_agent == nullptr) return;
  const auto* exit = std::get_if<ExecutorExited>(&from_agent->message);
  if (exit == nullptr) return;
  exited_.insert(exit->worker);
  recorder_.OnExit(*exit);
  saw_bug_ = saw_bug_ || (WIFEXITED(exit->wait_status) &&
                          WEXITSTATUS(exit->wait_status) == static_cast<int>(ExitCode::kBug));
}

JobRecorder::Traffic CoordinatorProcess::CountTraffic() const {
  JobRecorder::Traffic traffic;
  const ControlServer::Traffic control = server_->traffic();
  for (const auto& [kind, count] : control.in) traffic.coordinator_bytes += count.bytes;
  for (const auto& [kind, count] : control.out) traffic.coordinator_bytes += count.bytes;
  for (const auto& [worker, bytes] : link_bytes_) traffic.links_bytes += bytes;
  return traffic;
}

bool CoordinatorProcess::AwaitExits() {
  const TimePoint deadline = clock_.Now() + kLeaveTimeout;
  const auto all_left = [&] {
    return std::all_of(leaving_.begin(), leaving_.end(),
                       [this](WorkerId worker) { return exited_.contains(worker); });
  };
  while (!all_left() && clock_.Now() < deadline) {
    Wait(deadline);
    if (clock_.Now() >= next_tick_ && !Tick()) return false;
    HandleEvents();
  }
  return true;
}

// Nobody trains meanwhile: the disk may take its time.
void CoordinatorProcess::Choose(const ChooseCheckpoint& question) {
  if (committer_) committer_->Wait();
  RecordCheckpoints();
  recorder_.Warn(question.reason);
  CheckpointSource::Choice choice = checkpoints_.Choose(question.failed);
  for (const std::string& note : choice.notes) recorder_.Warn(note);
  Apply(CheckpointChosen{.version = choice.iteration, .why = std::move(choice.why)});
}

void CoordinatorProcess::Start(const StartWorker& start) {
  server_->Send(AgentOf(start.worker, config_.launch.agents), StartExecutor{start.worker});
}

void CoordinatorProcess::GoOnFrom(const AnnounceRestored& restored) {
  if (!restored.from_memory) checkpoints_.NoteLoaded(restored.version);
  if (committer_) committer_->StartOver(restored.version, /*is_complete=*/!restored.from_memory);
  recorder_.OnRestored(restored);
}

void CoordinatorProcess::RecordCheckpoints() {
  if (!committer_) return;
  for (const CheckpointCommitter::Result& result : committer_->TakeResults()) {
    recorder_.OnCheckpoint(result);
  }
}

void CoordinatorProcess::TellRefusals() {
  const ControlServer::Refusals refusals = server_->refusals();
  if (refusals.count == told_refusals_ || clock_.Now() < next_refusals_) return;
  recorder_.OnRefused(refusals.count - told_refusals_, refusals.last);
  told_refusals_ = refusals.count;
  next_refusals_ = clock_.Now() + kRefusalsInterval;
}

void CoordinatorProcess::PublishStatus() {
  const Coordinator::View view = core_.view();
  Json status;
  status["phase"] = view.phase;
  status["iteration"] = view.iteration;
  status["iterations"] = config_.train.iterations;
  status["loss"] = view.loss ? Json(*view.loss) : Json(nullptr);
  status["workers"] = config_.parallel.data * config_.parallel.pipeline;
  status["live"] = Json::array();
  for (const WorkerId worker : view.live) status["live"].push_back(ToString(worker));
  status["joining"] = Json::array();
  for (const WorkerId worker : view.joining) status["joining"].push_back(ToString(worker));
  status["generation"] = view.generation.value();
  status["reason"] = view.reason;
  status.update(recorder_.Progress());
  status["refused_calls"] = server_ == nullptr ? 0 : server_->refusals().count;
  status["run_dir"] = folder_.root();
  status["pid"] = getpid();
  const std::lock_guard lock(status_mutex_);
  status_ = status.dump();
}

ExitCode CoordinatorProcess::CodeOf(const EndJob& end, bool every_fault_fired) const {
  if (saw_bug_) return ExitCode::kBug;
  switch (end.how) {
    case EndJob::How::kDone:
      return every_fault_fired ? ExitCode::kDone : ExitCode::kNo;
    case EndJob::How::kStopped:
      return ExitCode::kDone;
    case EndJob::How::kStageLost:
      return ExitCode::kStageLost;
    case EndJob::How::kJoinTimeout:
      return ExitCode::kUnreachable;
    case EndJob::How::kDiverged:
      return ExitCode::kNo;
    case EndJob::How::kFailed:
      return ExitCode::kBug;
  }
  return ExitCode::kBug;
}

int RunCoordinatorProcess(const CoordinatorArguments& arguments) {
  std::signal(SIGXFSZ, SIG_IGN);  // a full disk is an error of write, not a death
  const StatusOr<RunFolder> folder = RunFolder::Open(arguments.run_dir);
  if (!folder.ok()) return ReportError(folder.status());
  InitLog("coordinator", folder->Log("coordinator"));
  const StatusOr<JobConfig> config = LoadJobConfig(folder->Config());
  if (!config.ok()) return ReportError(config.status());
  // The process, with its own end of the line, is gone where it could not start.
  const int line = fcntl(arguments.report_fd, F_DUPFD_CLOEXEC, 0);
  StatusOr<std::unique_ptr<CoordinatorProcess>> process =
      CoordinatorProcess::Start(*folder, *config, arguments);
  if (!process.ok()) {
    LogError("{}", std::string(process.status().message()));
    LauncherLink(line).Send("failed", Json{{"code", static_cast<int>(process.status().code())},
                                           {"message", std::string(process.status().message())}});
    return ReportError(process.status());
  }
  return static_cast<int>((*process)->Run());
}

}  // namespace recycle
