#include "recycle/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/base/check.h"

namespace recycle {

Coordinator::Coordinator(const CoordinatorOptions& options, MakePlanFunction make_plan,
                         OrderRemainderFunction order_remainder,
                         std::vector<std::string> canonical_parameters,
                         std::optional<Inheritance> inheritance)
    : options_(options),
      make_plan_(std::move(make_plan)),
      order_remainder_(std::move(order_remainder)),
      roster_(options_.parallel),
      detection_(DetectionRules{.failure_timeout = options_.failure_timeout,
                                .ask_timeout = options_.ask_timeout,
                                .link_faults_allowed = options_.link_faults_allowed,
                                .link_fault_window = options_.link_fault_window},
                 &roster_),
      completion_(options_.iterations, std::move(canonical_parameters)),
      rejoins_(&roster_, &transfer_numbers_, options_.failure_timeout),
      snapshots_({.on = options_.snapshots,
                  .num_stages = options_.parallel.num_stages(),
                  .num_hosts = options_.hosts},
                 &roster_, &transfer_numbers_),
      stragglers_(options_.slow_factor, &roster_),
      standstill_(options_.failure_timeout),
      restoration_(options_.restore_from),
      role_changes_({.hosts = options_.hosts,
                     .respawns = options_.respawns,
                     .failure_timeout = options_.failure_timeout,
                     .copy_bytes_per_second = options_.copy_bytes_per_second},
                    &roster_),
      generation_(options_.last_generation) {
  const Status valid = options_.Validate();
  RC_CHECK(valid.ok()) << valid;
  if (options_.restore_from) completion_.RestartAt(*options_.restore_from);
  if (inheritance) TakeOver(*std::move(inheritance));
}

std::vector<Effect> Coordinator::Step(const Event& event, TimePoint now) {
  if (phase_ == Phase::kOver) return {};
  // It is asked for twice as often (NextDeadline): this process itself was frozen or starved, and
  // cannot call others silent for it.
  if (started_ && now > now_ + options_.failure_timeout / 4) ForgiveGap(now - now_);
  now_ = now;
  if (!started_) started_ = now;
  std::visit([this](const auto& e) { Handle(e); }, event);
  if (phase_ == Phase::kTraining) EndStandstill();
  AbsorbFindings();
  Advance();
  AbsorbRejoins();
  AbsorbSnapshots();
  return std::exchange(effects_, {});
}

std::optional<TimePoint> Coordinator::NextDeadline() const {
  if (phase_ == Phase::kOver || !started_) return std::nullopt;
  std::optional<TimePoint> deadline = detection_.NextDeadline();
  if (const auto silence = rejoins_.NextDeadline()) {
    deadline = deadline ? std::min(*deadline, *silence) : silence;
  }
  if (const auto gathered = restoration_.deadline()) {
    deadline = deadline ? std::min(*deadline, *gathered) : gathered;
  }
  if (phase_ == Phase::kJoining) {
    deadline = deadline ? std::min(*deadline, JoinDeadline()) : JoinDeadline();
  }
  // Often enough to know its own gaps.
  return deadline ? std::min(*deadline, now_ + options_.failure_timeout / 8) : deadline;
}

void Coordinator::ForgiveGap(Duration gap) {
  *started_ += gap;
  detection_.ForgiveGap(gap);
  standstill_.ForgiveGap(gap);
  rejoins_.ForgiveGap(gap);
}

Coordinator::View Coordinator::view() const {
  View view{.generation = generation_,
            .live = roster_.Live(),
            .joining = rejoins_.Joiners(),
            .iteration = completion_.iterations_done(),
            .loss = completion_.last_loss(),
            .phase = "",
            .reason = reason_};
  switch (phase_) {
    case Phase::kJoining:
      view.phase = "joining";
      break;
    case Phase::kStoring:
    case Phase::kPreparing:
    case Phase::kResuming:
      view.phase = "regrouping";
      break;
    case Phase::kRestoring:
      view.phase = "restoring";
      break;
    case Phase::kTraining:
      view.phase = completion_.AnyFinishedAt(options_.iterations) ? "finishing" : "training";
      break;
    case Phase::kOver:
      view.phase = "over";
      break;
  }
  return view;
}

// --- events --------------------------------------------------------------------------------------

void Coordinator::Handle(const FromExecutor& event) {
  if (!roster_.Contains(event.worker)) {
    Send(event.worker, Fence{fmt::format("worker {} is no place of this job of {} x {} workers",
                                         ToString(event.worker), options_.parallel.data,
                                         options_.parallel.pipeline)});
    return;
  }
  const auto* const hello = std::get_if<Hello>(&event.message);
  if (hello != nullptr && !HasJobsArithmetic(event.worker, *hello)) return;
  if (roster_.IsLost(event.worker)) {
    HearFromLost(event.worker, event.message);
    return;
  }
  detection_.OnHeard(event.worker, now_);
  std::visit([&](const auto& message) { Receive(event.worker, message); }, event.message);
}

bool Coordinator::HasJobsArithmetic(WorkerId worker, const Hello& message) {
  if (!options_.reproducible) return true;
  if (!arithmetic_) arithmetic_ = message.arithmetic;
  if (message.arithmetic == *arithmetic_) return true;
  const std::string reason = fmt::format(
      "worker {} computes with '{}', the job with '{}': with train.reproducible all need the same "
      "build and kind of processor",
      ToString(worker), message.arithmetic, *arithmetic_);
  effects_.emplace_back(AnnounceWarning{reason});
  Send(worker, Fence{reason});
  return false;
}

void Coordinator::HearFromLost(WorkerId worker, const ExecutorMessage& message) {
  const Place& place = roster_.At(worker);
  const auto* hello = std::get_if<Hello>(&message);
  if (hello != nullptr && hello->pid != place.pid) {
    HearHelloFromLost(worker, *hello);
  } else if (rejoins_.IsJoiner(worker)) {
    rejoins_.OnJoinerMessage(worker, message, now_);
    if (const auto* fault = std::get_if<FaultReport>(&message)) Receive(worker, *fault);
    if (const auto* held = std::get_if<SnapshotHeld>(&message)) Receive(worker, *held);
    if (const auto* opened = std::get_if<TransferOpened>(&message)) {
      snapshots_.Receive(worker, *opened);
    }
    if (const auto* broken = std::get_if<TransferBroken>(&message)) {
      snapshots_.Receive(worker, *broken);
    }
  } else if (place.fenced && !place.left) {
    Send(worker, Fence{"it counts as lost: " + place.how_lost});
  } else if (place.fenced && hello != nullptr) {  // what it was told was on its old stream
    SendLeave(worker);
  }
}

void Coordinator::HearHelloFromLost(WorkerId worker, const Hello& message) {
  Place& place = roster_.At(worker);
  if (message.generation > Generation(0)) {  // a member once, under an earlier coordinator
    place.stream_open = true;
    if (place.left) {
      SendLeave(worker);
    } else if (place.fenced) {
      Send(worker, Fence{"it counts as lost: " + place.how_lost});
    }
    return;
  }
  rejoins_.OnGone(worker, "a newer process has come for the place");
  AbsorbRejoins();
  place.pid = message.pid;
  place.left = false;
  rejoins_.Add(worker, now_);
  role_changes_.OnHello(worker);
  snapshots_.NoteAll(worker, message.snapshots, now_);
  effects_.emplace_back(AnnounceJoined{worker, message.pid});
}

void Coordinator::Handle(const StreamClosed& event) {
  if (!roster_.Contains(event.worker)) return;
  detection_.OnStreamClosed(event.worker, now_);
  rejoins_.OnGone(event.worker, "its control stream has closed");
}

void Coordinator::Handle(const FromAgent& event) {
  if (const auto* parked = std::get_if<Parked>(&event.message)) {
    effects_.emplace_back(AnnounceParked{parked->worker, parked->deaths});
    role_changes_.OnParked(parked->worker);
  }
  const auto* exited = std::get_if<ExecutorExited>(&event.message);
  if (exited == nullptr || !roster_.Contains(exited->worker)) return;
  std::int32_t& pid = roster_.At(exited->worker).pid;
  if (pid != 0 && pid != exited->pid) return;  // a process that held the place before
  pid = exited->pid;                           // its Hello may come later
  detection_.OnExited(*exited, event.agent, now_);
  rejoins_.OnGone(exited->worker, "its process has ended");
}

void Coordinator::Handle(const AgentLost& event) {
  for (const WorkerId worker : event.workers) {
    if (!roster_.Contains(worker)) continue;
    detection_.OnAgentLost(worker, event.agent, now_);
    rejoins_.OnGone(worker, "its agent is gone");
  }
}

void Coordinator::Handle(const TimePassed& /*event*/) {
  detection_.OnTime(now_);
  rejoins_.OnTime(now_);
  if (phase_ == Phase::kJoining && now_ >= JoinDeadline()) OnJoinTimeout();
}

TimePoint Coordinator::JoinDeadline() const {
  return *started_ + (succeeds_ ? options_.failure_timeout : options_.join_timeout);
}

void Coordinator::OnJoinTimeout() {
  const std::vector<WorkerId> expected = roster_.Expected();
  if (succeeds_) {
    for (const WorkerId worker : expected) detection_.OnAbsent(worker, *started_, now_);
    return;
  }
  if (expected.empty()) return;
  End({.how = EndJob::How::kJoinTimeout,
       .reason =
           fmt::format("within {:.0f} s these workers have not joined: {}; their logs may say why, "
                       "launch.join_timeout_s gives them longer",
                       ToMilliseconds(options_.join_timeout) / 1000, ToString(expected)),
       .parameters_sha256 = ""});
}

void Coordinator::Handle(const StopWanted& /*event*/) {
  stop_wanted_ = true;
  if (phase_ != Phase::kResuming && phase_ != Phase::kTraining) return;  // sent after Resume
  for (const WorkerId member : roster_.Live()) Send(member, StopRequest{});
}

void Coordinator::Handle(const RecordStored& event) {
  if (phase_ != Phase::kStoring || event.generation != generation_) return;
  // What came while it was being stored makes it obsolete: nobody is told of it.
  if (changes_.pending()) {
    BeginGeneration();
  } else {
    SendPrepare();
  }
}

void Coordinator::Handle(const CheckpointChosen& event) {
  if (phase_ != Phase::kRestoring) return;
  if (event.version) {
    restoration_.OnChosen(*event.version, /*from_memory=*/false, now_ + options_.join_timeout);
    return;
  }
  End({.how = EndJob::How::kStageLost,
       .reason = restoration_.reason() + "; " + event.why,
       .parameters_sha256 = ""});
}

void Coordinator::Handle(const DrainWanted& event) {
  const std::string name = ToString(event.worker);
  if (!roster_.IsLive(event.worker)) {
    effects_.emplace_back(AnnounceWarning{fmt::format("drain {}: no live worker", name)});
  } else if (roster_.IsLastOfStage(event.worker)) {
    effects_.emplace_back(AnnounceWarning{
        fmt::format("drain {}: it is the last live worker of its stage and stays", name)});
  } else {
    Send(event.worker, Drain{});
  }
}

// --- the phases
// ------------------------------------------------------------------------------------

void Coordinator::AbsorbFindings() {
  Detection::Findings findings = detection_.TakeFindings();
  for (const auto& [worker, ask] : findings.asks) Send(worker, ask);
  for (std::string& text : findings.warnings) {
    effects_.emplace_back(AnnounceWarning{std::move(text)});
  }
  for (Loss& loss : findings.losses) {
    const WorkerId worker = loss.lost.worker;
    changes_.Lose(std::move(loss));
    rejoins_.OnLost(worker);
    snapshots_.OnGone(worker);
    stragglers_.Forget(worker);
    costs_.Forget(worker);
    role_changes_.OnLost(worker);
  }
  for (const Link& link : findings.broken_links) changes_.BreakLink(link);
  AbsorbRejoins();
  AbsorbSnapshots();
}

void Coordinator::AbsorbSnapshots() {
  SnapshotSets::Findings findings = snapshots_.TakeFindings();
  for (SendTo& send : findings.sends) effects_.emplace_back(std::move(send));
  for (AnnounceSnapshot& news : findings.news) effects_.emplace_back(news);
  for (std::string& text : findings.warnings) {
    effects_.emplace_back(AnnounceWarning{std::move(text)});
  }
}

void Coordinator::AbsorbRejoins() {
  Rejoins::Findings findings = rejoins_.TakeFindings();
  for (SendTo& send : findings.sends) effects_.emplace_back(std::move(send));
  for (AnnounceRejoin& news : findings.news) {
    if (news.what == AnnounceRejoin::What::kAbandoned) snapshots_.OnGone(news.worker);
    effects_.emplace_back(std::move(news));
  }
  for (const WorkerId worker : findings.withdrawn) {
    Place& place = roster_.At(worker);
    place.presence = Place::Presence::kLost;
    place.how_lost = "it was not taken back yet";
    place.fenced = true;
    changes_.Withdraw(worker, "it begins its copy anew");
  }
}

// The end is near for everybody once somebody has finished: nobody is taken back any more.
void Coordinator::TakeBackJoiners() {
  if (completion_.AnyFinishedAt(options_.iterations)) return;
  for (const WorkerId worker : rejoins_.Admit()) MakeLive(worker);
  rejoins_.AssignDonors();
}

void Coordinator::MakeLive(WorkerId worker) {
  Place& place = roster_.At(worker);
  const std::int32_t pid = place.pid;
  place = Place();
  place.presence = Place::Presence::kLive;
  place.pid = pid;
  place.stream_open = true;
  place.last_heard = now_;
  changes_.Admit(worker);
}

// A coordinator that comes after another one first waits for everybody.
std::optional<StageId> Coordinator::LostStage() const {
  const bool begins = succeeds_ && phase_ == Phase::kJoining;
  if (begins ? !roster_.Expected().empty() : !changes_.pending()) return std::nullopt;
  return roster_.LostStage();
}

void Coordinator::Advance() {
  if (phase_ == Phase::kOver) return;
  if (phase_ == Phase::kTraining) TakeBackJoiners();
  if (phase_ == Phase::kTraining && !changes_.pending()) {
    snapshots_.Count(completion_.iterations_done(), now_);
    snapshots_.Route();
    ReviewCosts();
  }
  if (phase_ == Phase::kRestoring) return GatherWorkers();
  if (const auto lost = LostStage()) return LoseStage(*lost);
  const std::vector<WorkerId> members = roster_.Live();
  switch (phase_) {
    case Phase::kJoining:
      if (roster_.Expected().empty()) BeginGeneration();
      return;
    case Phase::kStoring:
    case Phase::kRestoring:
    case Phase::kOver:
      return;
    case Phase::kPreparing:
    case Phase::kResuming:
    case Phase::kTraining:
      break;
  }
  if (changes_.pending()) {
    BeginGeneration();
    return;
  }
  const auto all = [&](const auto& answers) {
    return std::all_of(members.begin(), members.end(),
                       [&](WorkerId member) { return answers(member); });
  };
  if (phase_ == Phase::kPreparing && all([&](WorkerId w) { return ledgers_.contains(w); })) {
    SendResume();
  }
  const auto finished = [&](WorkerId w) { return completion_.HasFinished(w); };
  if (phase_ == Phase::kResuming &&
      all([&](WorkerId w) { return resumed_.contains(w) || finished(w); })) {
    AnnounceEverybodyResumed();
  }
  if (phase_ == Phase::kTraining && all(finished)) {
    for (const WorkerId member : members) Send(member, Leave{});
    for (const WorkerId joiner : rejoins_.Joiners()) Send(joiner, Leave{});
    End(completion_.Conclude(members));
  }
}

void Coordinator::End(EndJob end) {
  if (end.how != EndJob::How::kDone && end.how != EndJob::How::kStopped) {
    end.iterations = completion_.iterations_done();
  }
  phase_ = Phase::kOver;
  effects_.emplace_back(std::move(end));
}

void Coordinator::Send(WorkerId to, CoordinatorMessage message) {
  effects_.emplace_back(SendTo{to, std::move(message)});
}

}  // namespace recycle
