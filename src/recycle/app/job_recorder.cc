#include "recycle/app/job_recorder.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

#include "recycle/app/trace_merge.h"
#include "recycle/base/file.h"
#include "recycle/base/log.h"
#include "recycle/plan/plan_json.h"

namespace recycle {
namespace {

std::string_view HowText(EndJob::How how) {
  switch (how) {
    case EndJob::How::kDone:
      return "done";
    case EndJob::How::kStopped:
      return "stopped";
    case EndJob::How::kStageLost:
      return "stage_lost";
    case EndJob::How::kJoinTimeout:
      return "join_timeout";
    case EndJob::How::kDiverged:
      return "diverged";
    case EndJob::How::kFailed:
      return "failed";
  }
  return "";
}

Json Names(const std::vector<WorkerId>& workers) {
  Json names = Json::array();
  for (const WorkerId worker : workers) names.push_back(ToString(worker));
  return names;
}

// When the faults happened that a run before this start has told of.
std::set<double> FaultsIn(const std::string& events) {
  std::set<double> times;
  for (const Json& event : ReadLines(events)) {
    if (event.value("event", "") == "fault_injected") times.insert(event.value("time", 0.0));
  }
  return times;
}

}  // namespace

double MeanLoss(const IterationDone& done) {
  double loss_sum = 0;
  std::int64_t tokens = 0;
  for (const MicroBatchResult& result : done.results) {
    loss_sum += result.loss_sum;
    tokens += result.tokens;
  }
  return loss_sum / static_cast<double>(tokens);
}

JobRecorder::JobRecorder(const JobConfig& config, const RunFolder& folder, const Clock& clock,
                         LauncherLink& launcher, std::optional<Sampler> sampler)
    : config_(config),
      folder_(folder),
      clock_(clock),
      launcher_(launcher),
      sampler_(std::move(sampler)),
      faults_(config.inject, folder, config.launch.agents),
      events_(folder.Events(), [this](const std::string& text) { Warn(text); }),
      metrics_(folder.Metrics(), [this](const std::string& text) { Warn(text); }),
      samples_(folder.Samples(), [this](const std::string& text) { Warn(text); }),
      known_faults_(FaultsIn(folder.Events())),
      started_(clock.Now()) {}

void JobRecorder::Warn(const std::string& text) {
  LogWarning("{}", text);
  launcher_.Send("warning", Json{{"text", text}});
}

void JobRecorder::Write(const Json& event) {
  launcher_.Send("event", event);
  LogInfo("{}", event.dump());
  events_.Append(event.dump());
}

void JobRecorder::Begin(const LeaderAddress& leader, bool is_first) {
  if (is_first) {
    Json event = MakeEvent(clock_.UnixSeconds(), "job_started");
    event["workers"] = config_.parallel.data * config_.parallel.pipeline;
    event["iterations"] = config_.train.iterations;
    event["pid"] = getpid();
    Write(event);
  }
  Json event = MakeEvent(clock_.UnixSeconds(), "leader");
  event["id"] = leader.address;
  event["term"] = leader.term;
  event["pid"] = getpid();
  Write(event);
  if (!is_first) FaultsFired();  // such as the earlier coordinator's
}

void JobRecorder::TakeUp(const RunHistory& history) {
  if (history.events().empty()) return;
  const double unix_now = clock_.UnixSeconds();
  const auto moment_of = [&](const Json& event) {
    const std::chrono::duration<double> ago(unix_now - event.at("time").get<double>());
    return clock_.Now() - std::chrono::duration_cast<Duration>(ago);
  };
  started_ = moment_of(history.events().front());
  for (const Json& event : history.events()) {
    const std::string name = event.at("event");
    if (name == "executor_exited") exited_.emplace(event.at("worker"), event.at("pid"));
    if (name == "worker_parked") parked_.insert(event.at("worker"));
    if (name == "worker_joined") {
      const StatusOr<WorkerId> worker = ParseWorkerId(event.at("worker").get<std::string>());
      if (worker.ok()) came_back_[*worker] = moment_of(event);
      joined_.emplace(event.at("worker"), event.at("pid"));
    }
  }
  generation_ = history.announced();
  TakeUpSummary(history);
}

void JobRecorder::TakeUpSummary(const RunHistory& history) {
  std::multimap<int, Json> trouble;  // by the iteration it fell into
  bool is_first_resume = true;
  for (const Json& event : history.events()) {
    const bool is_resume = event.at("event") == "resumed";
    if (is_resume && std::exchange(is_first_resume, false)) continue;
    if (is_resume || event.at("event") == "failure_detected") {
      trouble.emplace(event.at("iteration"), event);
    }
  }
  if (!is_first_resume) last_progress_ = clock_.Now();
  disturbed_ = !is_first_resume;
  const auto note_until = [&](int iteration) {
    bool noted = false;
    for (; !trouble.empty() && trouble.begin()->first <= iteration;
         trouble.erase(trouble.begin())) {
      const Json& event = trouble.begin()->second;
      noted = true;
      if (event.at("event") == "failure_detected") {
        summary_.AddFailures(1);
      } else {
        const std::chrono::duration<double, std::milli> wasted(event.at("resume_ms").get<double>());
        const Json& replayed = event.at("replayed_actions");
        summary_.AddRegroup(replayed.is_null() ? 0 : replayed.get<int>(),
                            std::chrono::duration_cast<Duration>(wasted));
      }
    }
    return noted;
  };
  for (const Json& line : history.metrics()) {
    const std::chrono::duration<double, std::milli> elapsed(line.at("iteration_ms").get<double>());
    RunSummary::Iteration iteration;
    iteration.disturbed = note_until(line.at("iteration"));
    iteration.loss = NumberOf(line.at("loss"));
    iteration.tokens = line.at("tokens");
    iteration.elapsed = std::chrono::duration_cast<Duration>(elapsed);
    iteration.generation = Generation(line.at("generation").get<std::int64_t>());
    summary_.AddIteration(iteration);
  }
  note_until(config_.train.iterations);
  iterations_done_ = history.iterations_done();
}

void JobRecorder::OnJoined(const AnnounceJoined& joined) {
  if (!joined_.emplace(ToString(joined.worker), joined.pid).second) return;
  came_back_[joined.worker] = clock_.Now();
  Json event = MakeEvent(clock_.UnixSeconds(), "worker_joined");
  event["worker"] = ToString(joined.worker);
  event["pid"] = joined.pid;
  Write(event);
}

void JobRecorder::OnGenerationStored(const GenerationRecord& record, const DecisionTimes& times) {
  if (!record.lost.empty()) FaultsFired();
  for (const LostWorker& lost : record.lost) {
    if (lost.cause == LossCause::kNotice) {
      WriteLeave(lost);
    } else {
      WriteFailure(lost, times);
      summary_.AddFailures(1);
    }
  }
  generation_ = record.generation;
  Json event = MakeEvent(clock_.UnixSeconds(), "generation");
  event["generation"] = record.generation.value();
  event["live"] = Names(record.members);
  event["reason"] = record.reason;
  Write(event);
}

void JobRecorder::WriteLeave(const LostWorker& lost) {
  Json event = MakeEvent(clock_.UnixSeconds(), "worker_left");
  event["worker"] = ToString(lost.worker);
  event["iteration"] = lost.iteration;  // the last one it took part in
  Write(event);
}

void JobRecorder::WriteFailure(const LostWorker& lost, const DecisionTimes& times) {
  // Without an injector nobody knows when the fault happened: the first sign of it is the best
  // guess.
  // Nor which iteration it was in, if it died before it told: no earlier one than the first that is
  // not done.
  std::optional<FaultStamp> fault = faults_.LethalTo(lost.worker);
  const auto came_back = came_back_.find(lost.worker);
  if (fault && came_back != came_back_.end() && fault->time < came_back->second) fault.reset();
  const TimePoint began = std::min(fault ? fault->time : lost.first_signal, lost.first_signal);
  const int iteration = fault ? fault->iteration : std::max(lost.iteration, iterations_done_) + 1;
  Json event = MakeEvent(clock_.UnixSeconds(), "failure_detected");
  event["worker"] = ToString(lost.worker);
  event["cause"] = CauseText(lost.cause);
  event["detected_by"] = lost.detected_by;
  event["detect_ms"] = ToMilliseconds(times.stored - began);
  event["iteration"] = iteration;
  event["signal_ms"] = ToMilliseconds(lost.first_signal - began);
  event["stored_ms"] = ToMilliseconds(times.stored - began);
  event["told_ms"] = ToMilliseconds(times.told - began);
  Write(event);
}

Json JobRecorder::FaultFields(int fault) const {
  const Fault& written = faults_.faults()[static_cast<std::size_t>(fault)];
  return Json{{"what", WhatText(written.what)},
              {"target", TargetText(written.target)},
              {"point", PointText(written.point)},
              {"iteration", written.iteration ? Json(*written.iteration) : Json(nullptr)},
              {"fault", ToString(written)}};
}

void JobRecorder::FaultsFired() {
  for (const FaultStamp& stamp : faults_.TakeNew()) {
    if (known_faults_.contains(RoundedSeconds(stamp.unix_s))) continue;
    Json event = MakeEvent(stamp.unix_s, "fault_injected");
    event.update(FaultFields(stamp.fault));
    event["iteration"] = stamp.iteration;
    if (stamp.worker) event["worker"] = ToString(*stamp.worker);
    Write(event);
  }
}

void JobRecorder::OnPlan(const AnnouncePlan& made) {
  const Status written =
      WritePlanFile(*made.plan, made.iteration ? folder_.RestPlan(made.generation, *made.iteration)
                                               : folder_.Plan(made.generation));
  if (!written.ok()) Warn(std::string(written.message()));
}

std::optional<JobRecorder::Repeated> JobRecorder::CountRepeated(
    const std::vector<LostShare>& shares) const {
  if (!config_.log.trace) return std::nullopt;
  Repeated repeated;
  for (const LostShare& share : shares) {
    const StatusOr<int> completed =
        CountCompleted(folder_.TracePart(share.worker), share.worker, share.iteration + 1);
    if (!completed.ok()) {
      LogWarning("{}", std::string(completed.status().message()));
      return std::nullopt;
    }
    if (share.ahead && *completed == 0) continue;
    const int whole = std::accumulate(share.actions.begin(), share.actions.end(), 0,
                                      [](int sum, const Action& action) {
                                        return sum + (action.kind == ActionKind::kBackward ? 2 : 1);
                                      });
    repeated.replayed += *completed;
    repeated.rerouted += std::max(0, whole - *completed);
  }
  return repeated;
}

void JobRecorder::OnResumed(const AnnounceResumed& resumed) {
  const std::optional<Repeated> repeated = CountRepeated(resumed.lost_shares);
  Json event = MakeEvent(clock_.UnixSeconds(), "resumed");
  event["generation"] = resumed.generation.value();
  event["resume_ms"] = ToMilliseconds(resumed.since_decision);
  event["replayed_actions"] = repeated ? Json(repeated->replayed) : Json(nullptr);
  event["rerouted_actions"] = repeated ? Json(repeated->rerouted) : Json(nullptr);
  event["regenerated_actions"] = resumed.regenerated_actions;
  event["lost_iterations"] = std::exchange(lost_iterations_, 0);
  event["iteration"] = resumed.iteration + 1;
  event["rerouted_to"] = Json::object();
  for (const auto& [worker, count] : resumed.rerouted_to) {
    event["rerouted_to"][ToString(worker)] = count;
  }
  Write(event);
  if (last_progress_) {
    summary_.AddRegroup(repeated ? repeated->replayed : 0, JobTime(resumed.since_decision));
    disturbed_ = true;
  } else {
    last_progress_ = clock_.Now();
  }
}

Duration JobRecorder::JobTime(Duration elapsed) const {
  if (!config_.device.is_paced()) return elapsed;
  const std::chrono::duration<double, std::nano> of_the_profile = elapsed;
  return std::chrono::round<Duration>(of_the_profile / config_.device.time_scale);
}

void JobRecorder::OnIteration(const AnnounceIteration& announced) {
  const IterationDone& done = announced.done;
  const TimePoint now = config_.device.is_paced() ? done.stepped_at : clock_.Now();
  RunSummary::Iteration iteration;
  for (const MicroBatchResult& result : done.results) iteration.tokens += result.tokens;
  iteration.loss = MeanLoss(done);
  // A paced step may have ended before a coordinator that takes over began.
  iteration.elapsed = JobTime(std::max(now - last_progress_.value_or(now), Duration::zero()));
  iteration.generation = generation_;
  iteration.disturbed = disturbed_;
  summary_.AddIteration(iteration);
  last_progress_ = now;
  disturbed_ = false;
  iterations_done_ = done.iteration + 1;
  iteration_ms_ = ToMilliseconds(iteration.elapsed);
  tokens_per_s_ =
      iteration_ms_ > 0 ? static_cast<double>(iteration.tokens) / iteration_ms_ * 1e3 : 0;

  Json line;
  line["iteration"] = done.iteration + 1;
  line["loss"] = iteration.loss;
  if (done.validation_loss) line["validation_loss"] = *done.validation_loss;
  line["tokens"] = iteration.tokens;
  line["tokens_per_s"] = tokens_per_s_;
  line["iteration_ms"] = iteration_ms_;
  line["grad_norm"] = done.grad_norm;
  line["lr"] = done.lr;
  line["workers_live"] = announced.workers_live;
  line["generation"] = done.generation.value();
  line["peak_bytes"] = Json::array();
  for (const auto& [stage, bytes] : announced.peak_bytes) line["peak_bytes"].push_back(bytes);
  WriteSamples(done);
  launcher_.Send("metrics", line);
  metrics_.Append(line.dump());  // last: an iteration is recorded with this line
}

void JobRecorder::WriteSamples(const IterationDone& done) {
  if (!sampler_) return;
  const StageId last_stage(config_.parallel.pipeline - 1);
  for (const MicroBatchResult& result : done.results) {
    const int global =
        result.micro_batch.home.value() * config_.batch.micro_batches + result.micro_batch.index;
    Json line;
    line["iteration"] = done.iteration + 1;
    line["micro_batch"] = ToString(result.micro_batch);
    line["samples"] = sampler_->Samples(done.iteration, global);
    line["worker"] = ToString(WorkerId{result.executed_by, last_stage});
    samples_.Append(line.dump());
  }
}

void JobRecorder::OnLinkRestored(const AnnounceLinkRestored& restored) {
  Json event = MakeEvent(clock_.UnixSeconds(), "link_restored");
  event["link"] = ToString(restored.a) + "-" + ToString(restored.b);
  Write(event);
}

void JobRecorder::OnRejoin(const AnnounceRejoin& news) {
  const auto make = [&](std::string_view name) {
    Json event = MakeEvent(clock_.UnixSeconds(), name);
    event["worker"] = ToString(news.worker);
    return event;
  };
  switch (news.what) {
    case AnnounceRejoin::What::kStarted: {
      Json event = make("rejoin_started");
      event["donor"] = ToString(news.donor);
      Write(event);
      return;
    }
    case AnnounceRejoin::What::kRejoined: {
      Json event = make("rejoined");
      event["donor"] = ToString(news.donor);
      event["copy_bytes"] = news.copy_bytes;
      event["copy_ms"] = ToMilliseconds(news.copy_time);
      Write(event);
      return;
    }
    case AnnounceRejoin::What::kAbandoned: {
      Json event = make("rejoin_abandoned");
      event["reason"] = news.reason;
      Write(event);
      return;
    }
  }
}

void JobRecorder::OnRefused(std::int64_t count, const std::string& last) {
  Json event = MakeEvent(clock_.UnixSeconds(), "calls_refused");
  event["count"] = count;
  event["last"] = last;
  Write(event);
}

void JobRecorder::OnRollback(const AnnounceRollback& rollback) {
  const double norm = std::sqrt(rollback.verdict.squared_norm);
  Json event = MakeEvent(clock_.UnixSeconds(), "rollback");
  event["stage"] = rollback.stage.value();
  event["iteration"] = rollback.verdict.iteration + 1;
  event["why"] = std::isfinite(norm) ? fmt::format("gradient norm {:.6g} is above clip {:.6g}",
                                                   norm, config_.optimizer.clip)
                                     : "the gradient is not finite";
  Write(event);
}

void JobRecorder::OnRedo(const AnnounceRedo& redo) {
  Json event = MakeEvent(clock_.UnixSeconds(), "sums_redone");
  event["stage"] = redo.quantum.stage.value();
  event["iteration"] = redo.quantum.iteration + 1;
  event["quantum_exponent"] = redo.quantum.exponent;
  event["why"] = "a gradient was too large for the fixed-point sums";
  Write(event);
}

void JobRecorder::OnSkippedStep(const AnnounceSkippedStep& skipped) {
  Json event = MakeEvent(clock_.UnixSeconds(), "step_skipped");
  event["iteration"] = skipped.iteration + 1;
  event["in_a_row"] = skipped.in_a_row;
  event["why"] = "the gradient is not finite";
  Write(event);
}

void JobRecorder::OnStraggler(const AnnounceStraggler& straggler) {
  Json event = MakeEvent(clock_.UnixSeconds(), straggler.is_slow ? "straggler" : "straggler_over");
  event["worker"] = ToString(straggler.worker);
  event["score"] = straggler.score;
  Write(event);
}

void JobRecorder::OnCosts(const AnnounceCosts& costs) {
  const auto list = [](const CostProfile& profile) {
    Json stages = Json::array();
    for (const StageCosts& stage : profile.stages) {
      stages.push_back(
          {ToUnits(stage.forward), ToUnits(stage.backward_input), ToUnits(stage.backward_weight)});
    }
    return stages;
  };
  const auto period = [](const std::optional<Ticks>& ticks) {
    return ticks ? Json(ToUnits(*ticks)) : Json(nullptr);
  };
  Json event = MakeEvent(clock_.UnixSeconds(), "costs_measured");
  event["planned"] = list(costs.planned);
  event["measured"] = list(costs.measured);
  event["deviation"] = costs.deviation;
  event["period_before"] = period(costs.period_before);
  event["period_after"] = period(costs.period_after);
  event["replanned"] = costs.replanned;
  event["reason"] = costs.reason;
  Write(event);
}

void JobRecorder::OnRoleChange(const AnnounceRoleChange& change) {
  Json event = MakeEvent(clock_.UnixSeconds(), "role_change");
  event["from"] = ToString(change.from);
  event["to"] = ToString(change.to);
  event["gain_ms"] = ToMilliseconds(change.gain);
  event["cost_ms"] = ToMilliseconds(change.cost);
  event["reason"] = change.reason;
  Write(event);
}

void JobRecorder::OnParked(const AnnounceParked& parked) {
  if (!parked_.insert(ToString(parked.worker)).second) return;
  Json event = MakeEvent(clock_.UnixSeconds(), "worker_parked");
  event["worker"] = ToString(parked.worker);
  event["deaths"] = parked.deaths;
  Write(event);
}

void JobRecorder::OnRestored(const AnnounceRestored& restored) {
  lost_iterations_ = restored.lost_iterations;
  summary_.AddLostIterations(restored.lost_iterations);
  iterations_done_ = restored.version;
  // What is done again does not count twice.
  const Status dropped = DropLinesAfter(folder_.Samples(), restored.version);
  if (!dropped.ok()) Warn(std::string(dropped.message()));
  Json event = MakeEvent(clock_.UnixSeconds(), "restored");
  event["from"] = restored.from_memory ? "memory" : "disk";
  event["iteration"] = restored.version;
  event["lost_iterations"] = restored.lost_iterations;
  Write(event);
}

void JobRecorder::OnSnapshot(const AnnounceSnapshot& snapshot) {
  Json event = MakeEvent(clock_.UnixSeconds(), "snapshot");
  event["iteration"] = snapshot.version;
  event["bytes"] = snapshot.bytes;
  event["ms"] = ToMilliseconds(snapshot.time);
  Write(event);
}

void JobRecorder::OnCheckpoint(const CheckpointCommitter::Result& result) {
  if (!result.error.empty()) {
    Warn(fmt::format("no checkpoint of iteration {}: {}", result.iteration, result.error));
    return;
  }
  Json event = MakeEvent(clock_.UnixSeconds(), "checkpoint");
  event["iteration"] = result.iteration;
  event["bytes"] = result.bytes;
  event["ms"] = ToMilliseconds(result.time);
  Write(event);
}

void JobRecorder::OnExit(const ExecutorExited& exited) {
  if (!exited_.emplace(ToString(exited.worker), exited.pid).second) return;
  Json event = MakeEvent(clock_.UnixSeconds(), "executor_exited");
  event["worker"] = ToString(exited.worker);
  event["pid"] = exited.pid;
  if (WIFEXITED(exited.wait_status)) event["exit_code"] = WEXITSTATUS(exited.wait_status);
  if (WIFSIGNALED(exited.wait_status)) event["signal"] = WTERMSIG(exited.wait_status);
  Write(event);
}

void JobRecorder::WriteTrace() {
  const std::filesystem::path folder =
      std::filesystem::path(folder_.TracePart(WorkerId())).parent_path();
  std::error_code error;
  // Not there: a coordinator before this one has got as far as this.
  if (!config_.log.trace || !std::filesystem::exists(folder, error)) return;
  std::vector<TracePart> parts;
  for (int pipeline = 0; pipeline < config_.parallel.data; ++pipeline) {
    for (int stage = 0; stage < config_.parallel.pipeline; ++stage) {
      const WorkerId worker{PipelineId(pipeline), StageId(stage)};
      parts.push_back({folder_.TracePart(worker), worker});
    }
  }
  const Status merged = MergeTrace(parts, folder_.Trace());
  if (!merged.ok()) {
    Warn(std::string(merged.message()));
    return;  // the parts stay
  }
  std::filesystem::remove_all(folder, error);
}

bool JobRecorder::JobOver(const EndJob& end, const Traffic& traffic) {
  FaultsFired();
  const std::vector<int> missed =
      end.how == EndJob::How::kDone ? faults_.Missed() : std::vector<int>();
  for (const int fault : missed) {
    Json event = MakeEvent(clock_.UnixSeconds(), "fault_missed");
    event.update(FaultFields(fault));
    Write(event);
  }
  Json event = MakeEvent(clock_.UnixSeconds(), "job_finished");
  event["how"] = HowText(end.how);
  event["reason"] = end.reason;
  event["iterations"] = end.iterations;
  Write(event);
  Json summary = summary_.ToJson(end.iterations, end.parameters_sha256, clock_.Now() - started_);
  summary["traffic"] = {{"coordinator_bytes", traffic.coordinator_bytes},
                        {"links_bytes", traffic.links_bytes}};
  launcher_.Send("summary", summary);
  const Status written = WriteFileAtomically(folder_.Summary(), summary.dump(2) + "\n");
  if (!written.ok()) Warn(std::string(written.message()));
  // Last: a long trace takes its time, and whoever knows the summary waits for it.
  WriteTrace();
  return missed.empty();
}

Json JobRecorder::Progress() const {
  return Json{{"tokens_per_s", tokens_per_s_},
              {"iteration_ms", iteration_ms_},
              {"failures", summary_.failures()},
              {"elapsed_s", std::chrono::duration<double>(clock_.Now() - started_).count()}};
}

}  // namespace recycle
