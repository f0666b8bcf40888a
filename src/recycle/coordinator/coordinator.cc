#include "recycle/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/base/check.h"
#include "recycle/coordinator/regroup.h"

namespace recycle {
namespace {

// A job that has gone without this many steps in a row has diverged.
constexpr std::int32_t kSkippedStepsAllowed = 10;

// A place whose state was wrong more often than this is not filled again: its machine is broken.
constexpr int kCorruptionsForgiven = 2;

// Between all workers of neighbouring stages.
std::vector<Link> AllLinks(const std::vector<WorkerId>& members) {
  std::vector<Link> links;
  for (const WorkerId a : members) {
    for (const WorkerId b : members) {
      if (b.stage.value() == a.stage.value() + 1) links.push_back(MakeLink(a, b));
    }
  }
  return links;
}

}  // namespace

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
      restoration_(options_.restore_from),
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
  }
}

void Coordinator::HearHelloFromLost(WorkerId worker, const Hello& message) {
  Place& place = roster_.At(worker);
  if (message.generation > Generation(0)) {  // a member once, under an earlier coordinator
    place.stream_open = true;
    if (place.left) {
      Send(worker, Leave{});
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
       .reason = fmt::format("within {:.0f} s these workers have not joined: {}",
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

// --- messages of live or expected workers --------------------------------------------------------

void Coordinator::Receive(WorkerId from, const Hello& message) {
  Place& place = roster_.At(from);
  if (place.presence == Place::Presence::kLive && place.pid != message.pid) {
    Send(from, Fence{fmt::format("place {} is held by process {}", ToString(from), place.pid)});
    return;
  }
  const bool was_expected = place.presence == Place::Presence::kExpected;
  if (was_expected && succeeds_ && !IsStillMember(from, message)) return;
  if (phase_ == Phase::kJoining) {
    // Newer than the record if the store was out of order and training went on without it.
    generation_ = std::max(generation_, message.generation);
  } else if (!was_expected) {
    changes_.Reconnect(from);  // what was on the old stream may be lost
  }
  const bool is_new = was_expected && !succeeds_;
  place.version = std::max(place.version, message.version);
  snapshots_.NoteAll(from, message.snapshots, now_);
  place.presence = Place::Presence::kLive;
  place.pid = message.pid;
  place.stream_open = true;
  place.closed_at.reset();
  if (!was_expected) detection_.OnReconnected(from, now_);
  if (is_new) effects_.emplace_back(AnnounceJoined{from, message.pid});
  if (const auto reports = early_reports_.extract(from); !reports.empty()) {
    for (const auto& [reporter, report] : reports.mapped()) {
      if (roster_.IsLive(reporter)) detection_.OnLinkBroken(reporter, report, now_);
    }
  }
}

void Coordinator::Receive(WorkerId from, const Heartbeat& message) {
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.version);
  place.peak_bytes = std::max(place.peak_bytes, message.peak_bytes);
  detection_.OnHeartbeat(from, message, now_);
  if (phase_ != Phase::kTraining || !roster_.IsLive(from)) return;
  if (const auto change = stragglers_.Judge(from)) {
    effects_.emplace_back(AnnounceStraggler{change->worker, change->score, change->is_slow});
    changes_.Rebalance(change->worker, change->score, change->is_slow);
  }
}

void Coordinator::Receive(WorkerId from, const LinkBroken& message) {
  if (message.generation > generation_ || !roster_.Contains(message.peer)) return;
  if (roster_.At(message.peer).presence == Place::Presence::kExpected) {
    early_reports_[message.peer].emplace_back(from, message);  // it has to say hello first
  } else {
    detection_.OnLinkBroken(from, message, now_);
  }
}

void Coordinator::Receive(WorkerId from, const StillHere& message) {
  detection_.OnStillHere(from, message, now_);
}

void Coordinator::Receive(WorkerId from, const Ledger& message) {
  if (phase_ != Phase::kPreparing || message.generation != generation_) return;
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.version);
  ledgers_[from] = message;
  snapshots_.NoteAll(from, message.snapshots, now_);
  if (auto news = rejoins_.Settle(from)) changes_.Settle(*std::move(news));
  MakePlanIfNeeded();
}

void Coordinator::Receive(WorkerId from, const Resumed& message) {
  if (phase_ == Phase::kResuming && message.generation == generation_) resumed_.insert(from);
}

void Coordinator::Receive(WorkerId from, const IterationDone& message) {
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.iteration + 1);
  for (IterationDone& done : completion_.OnIterationDone(message)) {
    effects_.emplace_back(AnnounceIteration{.done = std::move(done),
                                            .workers_live = static_cast<int>(roster_.Live().size()),
                                            .peak_bytes = roster_.PeakBytes()});
    const IterationDone& last = std::get<AnnounceIteration>(effects_.back()).done;
    if (last.skipped_in_a_row > 0) JudgeSkippedStep(last.iteration, last.skipped_in_a_row);
  }
}

// Nothing has been learnt from any of them: more of the same will not help.
void Coordinator::JudgeSkippedStep(std::int32_t iteration, std::int32_t in_a_row) {
  effects_.emplace_back(AnnounceSkippedStep{iteration, in_a_row});
  if (in_a_row < kSkippedStepsAllowed || phase_ == Phase::kOver) return;
  End({.how = EndJob::How::kDiverged,
       .reason = fmt::format("training diverges: the gradient was not finite in {} iterations in a "
                             "row, the last of them {}; lower optimizer.lr, clip the gradient "
                             "(optimizer.clip), or begin with more optimizer.warmup",
                             in_a_row, iteration + 1),
       .parameters_sha256 = ""});
}

void Coordinator::Receive(WorkerId from, const LastWords& message) {
  detection_.OnLastWords(from, message, now_);
}

void Coordinator::Receive(WorkerId from, const FaultReport& message) {
  effects_.emplace_back(AnnounceFault{from, message});
}

void Coordinator::Receive(WorkerId from, const Finished& message) {
  completion_.OnFinished(from, message);
  if (phase_ == Phase::kResuming) resumed_.insert(from);  // there was nothing left to resume
}

void Coordinator::Receive(WorkerId from, const StateHash& message) {
  const auto difference = comparison_.Receive(from, message);
  if (!difference) return;
  if (!difference->right.empty()) {
    for (const WorkerId worker : difference->wrong) {
      detection_.OnCorrupted(worker, message.version, difference->right, now_);
      if (++corruptions_[worker] <= kCorruptionsForgiven) to_repair_.insert(worker);
    }
    return;
  }
  const std::optional<std::int32_t> equal = comparison_.LastEqual(from.stage);
  End({.how = EndJob::How::kDiverged,
       .reason = fmt::format(
           "the workers of stage {} ({}) have different parameters or moments after {} iterations, "
           "and no majority tells who is right: memory that corrupts data, or a bug; {}",
           from.stage.value(), ToString(difference->wrong), message.version,
           equal ? fmt::format("they were equal last after {} iterations, and a checkpoint of then "
                               "or before is good",
                               *equal)
                 : "they have not been compared before"),
       .parameters_sha256 = ""});
}

void Coordinator::Receive(WorkerId from, const Departing& message) {
  Place& place = roster_.At(from);
  place.version = std::max(place.version, message.version);
  if (roster_.IsLastOfStage(from)) {  // its peers have died meanwhile
    changes_.Stay(from);
  } else {
    detection_.OnDeparting(from, now_);
  }
}

// Of any generation: the file is named after its own, and the sender is a member of this one.
void Coordinator::Receive(WorkerId /*from*/, const ShardWritten& message) {
  effects_.emplace_back(AnnounceShard{message});
}

void Coordinator::Receive(WorkerId from, const RestoreFailed& message) {
  if (phase_ != Phase::kPreparing || message.generation != generation_) return;
  if (restoration_.from_memory()) {
    snapshots_.Forget(from, message.version);
    return GoBack(
        fmt::format("{}; worker {}: {}", restoration_.reason(), ToString(from), message.error));
  }
  GoBackToCheckpoint(fmt::format("worker {} cannot load the checkpoint of iteration {}: {}",
                                 ToString(from), message.version, message.error),
                     message.version);
}

void Coordinator::Receive(WorkerId from, const TransferOpened& message) {
  rejoins_.Receive(from, message);
  snapshots_.Receive(from, message);
}

void Coordinator::Receive(WorkerId from, const TransferBroken& message) {
  rejoins_.Receive(from, message);
  snapshots_.Receive(from, message);
}

// Of an older generation: the sender's ledger of this one says it.
void Coordinator::Receive(WorkerId /*from*/, const Amend& message) {
  const bool runs = phase_ == Phase::kResuming || phase_ == Phase::kTraining;
  if (runs && message.generation == generation_) changes_.Amend(message.verdict);
}

void Coordinator::Receive(WorkerId /*from*/, const Outgrown& message) {
  const bool runs = phase_ == Phase::kResuming || phase_ == Phase::kTraining;
  if (runs && message.generation == generation_) changes_.Redo(message.quantum);
}

// --- coming after another coordinator ------------------------------------------------------------

void Coordinator::TakeOver(Inheritance inheritance) {
  GenerationRecord& record = inheritance.record;
  succeeds_ = true;
  generation_ = record.generation;
  reason_ = record.reason;
  work_ = std::move(inheritance.told);
  completion_.RestartAt(inheritance.iterations_done);
  completion_.NoteLastLoss(inheritance.last_loss);
  if (!inheritance.restored) restoration_ = Restoration(record.restore, record.from_memory);
  transfer_numbers_.StartAfter(record.generation);
  for (const auto& [worker, pid] : record.pids) roster_.At(worker).pid = pid;
  std::vector<WorkerId> lost;
  std::vector<WorkerId> unplanned;
  for (const WorkerId worker : roster_.Expected()) {
    if (std::count(record.members.begin(), record.members.end(), worker) > 0) continue;
    Place& place = roster_.At(worker);
    place.presence = Place::Presence::kLost;
    place.how_lost = "it was lost under an earlier coordinator";
    place.fenced = true;
    lost.push_back(worker);
    if (work_.plan != nullptr && FindWorker(work_.plan->workers, worker) != nullptr) {
      unplanned.push_back(worker);
    }
  }
  for (const LostWorker& entry : record.lost) {
    roster_.At(entry.worker).left = entry.cause == LossCause::kNotice;
    if (entry.cause == LossCause::kCorruption) to_repair_.insert(entry.worker);
  }
  changes_.TakeOver(record, std::move(lost), std::move(unplanned));
  inherited_returns_ = std::move(record.returning);
}

bool Coordinator::IsStillMember(WorkerId worker, const Hello& message) {
  Place& place = roster_.At(worker);
  if (place.pid != message.pid) {
    detection_.OnReplaced(worker, now_);
    HearFromLost(worker, message);
    return false;
  }
  const auto returning = inherited_returns_.find(worker);
  if (returning == inherited_returns_.end()) return true;
  if (message.generation > Generation(0)) {
    changes_.Settle({.what = AnnounceRejoin::What::kRejoined,
                     .worker = worker,
                     .donor = returning->second,
                     .reason = ""});
    return true;
  }
  // It was admitted and has not taken over its donor's state: it begins once more.
  place.presence = Place::Presence::kLost;
  place.how_lost = "it was not taken back yet";
  place.fenced = true;
  changes_.Withdraw(worker);
  rejoins_.Add(worker, now_);
  return false;
}

// --- the round of a generation -------------------------------------------------------------------

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
  }
  for (const Link& link : findings.broken_links) changes_.BreakLink(link);
  AbsorbRejoins();
  AbsorbSnapshots();
}

void Coordinator::AbsorbSnapshots() {
  SnapshotSets::Findings findings = snapshots_.TakeFindings();
  for (SendTo& send : findings.sends) effects_.emplace_back(std::move(send));
  for (AnnounceSnapshot& news : findings.news) effects_.emplace_back(news);
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
    changes_.Withdraw(worker);
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

void Coordinator::BeginGeneration() {
  generation_ = Generation(generation_.value() + 1);
  decided_ = now_;
  phase_ = Phase::kStoring;
  GenerationRecord record = changes_.TakeRecord(generation_, roster_, rejoins_.Admitted(),
                                                restoration_.version(), restoration_.from_memory());
  reason_ = record.reason;
  effects_.emplace_back(StoreRecord{std::move(record)});
}

void Coordinator::SendPrepare() {
  phase_ = Phase::kPreparing;
  ledgers_.clear();
  for (const WorkerId worker : changes_.unprepared_losses()) {
    Place& place = roster_.At(worker);
    if (roster_.IsLive(worker)) continue;  // another process has its place already
    place.fenced = true;
    if (to_repair_.erase(worker) > 0) effects_.emplace_back(StartWorker{worker});
    if (!place.stream_open || rejoins_.IsJoiner(worker)) continue;
    if (place.left) {
      Send(worker, Leave{});
    } else {
      Send(worker, Fence{"it counts as lost: " + place.how_lost});
    }
  }
  const std::vector<WorkerId> members = roster_.Live();
  Prepare prepare{.generation = generation_,
                  .members = members,
                  .dead = changes_.TakeUnprepared(),
                  .relinked = changes_.links(),
                  .reason = reason_,
                  .restore = restoration_.version(),
                  .from_memory = restoration_.from_memory()};
  std::erase_if(prepare.dead, [this](WorkerId worker) { return roster_.IsLive(worker); });
  // With the old links goes whatever is still on its way.
  if (prepare.restore) {
    prepare.relinked = AllLinks(members);
    snapshots_.EndTransfers();
    AbsorbSnapshots();
  }
  for (const WorkerId member : members) Send(member, prepare);
}

// Called with the first ledger, while the others still finish their running action.
void Coordinator::MakePlanIfNeeded() {
  const std::vector<WorkerId> failed = roster_.Lost();
  const std::vector<SlowWorker> slow = stragglers_.Slow();
  if (plan_ != nullptr && failed == plan_failed_ && slow == plan_slow_) return;
  StatusOr<Plan> plan = make_plan_(failed, slow);
  if (!plan.ok()) {
    End({.how = EndJob::How::kFailed,
         .reason = fmt::format("no plan for generation {} ({}): {}", generation_.value(), reason_,
                               std::string(plan.status().message())),
         .parameters_sha256 = ""});
    return;
  }
  plan_ = std::make_shared<const Plan>(*std::move(plan));
  plan_failed_ = failed;
  plan_slow_ = slow;
}

void Coordinator::SendResume() {
  const bool restored = restoration_.version().has_value();
  StatusOr<ResumeDecision> decision = PlanResume({.plan = *plan_,
                                                  .ledgers = ledgers_,
                                                  .iterations = options_.iterations,
                                                  .tied = options_.tied},
                                                 order_remainder_);
  if (!decision.ok()) {
    const bool lost = decision.status().code() == StatusCode::kDataLoss;
    End({.how = lost ? EndJob::How::kStageLost : EndJob::How::kFailed,
         .reason = std::string(decision.status().message()),
         .parameters_sha256 = ""});
    return;
  }
  if (!decision->stranded.empty()) return GiveUpStranded(decision->stranded);
  if (const auto version = restoration_.version()) StartOver(*version);
  phase_ = Phase::kResuming;
  resumed_.clear();
  completion_.ForgetFinished();
  Resume resume{.generation = generation_,
                .open = std::move(decision->open),
                .next_iteration = decision->next_iteration,
                .repeat_validation = decision->repeat_validation,
                .verdicts = decision->verdicts,
                .quanta = decision->quanta,
                .endpoints = {},
                .plan = plan_,
                .compare_state = changes_.has_rejoins() || restored};
  for (const auto& [worker, ledger] : ledgers_) resume.endpoints[worker] = ledger.endpoints;
  effects_.emplace_back(
      AnnouncePlan{.generation = generation_, .iteration = std::nullopt, .plan = plan_});
  for (const OpenIteration& open : resume.open) {
    effects_.emplace_back(
        AnnouncePlan{.generation = generation_, .iteration = open.iteration, .plan = open.rest});
  }
  for (const WorkerId member : roster_.Live()) {
    Send(member, resume);
    if (stop_wanted_) Send(member, StopRequest{});
  }
  regenerated_actions_ = decision->regenerated_actions;
  NoteCorrections(*decision);
  NoteWork({std::move(resume.open), resume.next_iteration, plan_});
}

void Coordinator::GiveUpStranded(const std::vector<WorkerId>& stranded) {
  for (const WorkerId worker : stranded) {
    Place& place = roster_.At(worker);
    place.presence = Place::Presence::kLost;
    place.how_lost = "its donor died before it had handed over its last gradient";
    place.fenced = true;
    changes_.Withdraw(worker);
    snapshots_.OnGone(worker);
    effects_.emplace_back(AnnounceRejoin{.what = AnnounceRejoin::What::kAbandoned,
                                         .worker = worker,
                                         .donor = {},
                                         .reason = place.how_lost});
  }
  BeginGeneration();
}

void Coordinator::NoteWork(AssignedWork work) {
  for (LostShare& share :
       FindLostShares(work_, work, options_.iterations, changes_.TakeUnplanned())) {
    unresumed_shares_.push_back(std::move(share));
  }
  work_ = std::move(work);
}

void Coordinator::NoteCorrections(const ResumeDecision& decision) {
  for (const Rollback& rollback : decision.rollbacks) rollbacks_[rollback.stage] = rollback.verdict;
  for (const Quantum& quantum : decision.redone) redone_[quantum.stage] = quantum;
}

void Coordinator::AnnounceEverybodyResumed() {
  phase_ = Phase::kTraining;
  for (const auto& [stage, verdict] : std::exchange(rollbacks_, {})) {
    effects_.emplace_back(AnnounceRollback{stage, verdict});
  }
  for (const auto& [stage, quantum] : std::exchange(redone_, {})) {
    effects_.emplace_back(AnnounceRedo{quantum});
  }
  std::map<WorkerId, int> receivers = CountReceivers(unresumed_shares_, work_);
  effects_.emplace_back(AnnounceResumed{
      .generation = generation_,
      .since_decision = now_ - decided_,
      .iteration = work_.open.empty() ? work_.next_iteration : work_.open.front().iteration,
      .lost_shares = std::exchange(unresumed_shares_, {}),
      .rerouted_to = std::move(receivers),
      .regenerated_actions = regenerated_actions_});
  for (AnnounceRejoin& news : changes_.TakeRejoins()) {
    effects_.emplace_back(std::move(news));
  }
  for (const Link& link : changes_.TakeLinks()) {
    effects_.emplace_back(AnnounceLinkRestored{link.first, link.second});
  }
}

void Coordinator::LoseStage(StageId stage) {
  std::string losses;
  for (const WorkerId worker : roster_.Lost()) {
    if (worker.stage != stage) continue;
    losses += fmt::format("{}{} ({})", losses.empty() ? "" : ", ", ToString(worker),
                          roster_.At(worker).how_lost);
  }
  const std::string reason = fmt::format(
      "stage {} has no live worker left, its parameters are lost: {}", stage.value(), losses);
  const bool has_begun = succeeds_ || phase_ != Phase::kJoining;
  restoration_.Finish();
  BeginGeneration();  // the record of who is lost
  if (!has_begun) {
    End({.how = EndJob::How::kStageLost, .reason = reason, .parameters_sha256 = ""});
  } else {
    GoBack(reason);
  }
}

void Coordinator::GoBack(const std::string& reason) {
  if (const auto version = snapshots_.Newest(completion_.iterations_done())) {
    GoBackToSnapshot(reason, *version);
  } else {
    GoBackToCheckpoint(reason, std::nullopt);
  }
}

void Coordinator::GoBackToSnapshot(const std::string& reason, std::int32_t version) {
  phase_ = Phase::kRestoring;
  restoration_.Choose(reason);
  restoration_.OnChosen(version, /*from_memory=*/true, now_ + options_.join_timeout);
  GatherWorkers();
}

void Coordinator::GoBackToCheckpoint(const std::string& reason,
                                     std::optional<std::int32_t> failed) {
  const std::string why = snapshots_.WhyNone();
  const std::string all = why.empty() || failed ? reason : reason + "; " + why;
  restoration_.Choose(all);
  if (options_.checkpoints) {
    phase_ = Phase::kRestoring;
    effects_.emplace_back(ChooseCheckpoint{.failed = failed, .reason = all});
  } else {
    End({.how = EndJob::How::kStageLost, .reason = all, .parameters_sha256 = ""});
  }
}

void Coordinator::GatherWorkers() {
  if (!restoration_.deadline()) return;  // which checkpoint is not known yet
  if (restoration_.from_memory() && !FeedSnapshot(*restoration_.version())) {
    return GoBack(std::string(restoration_.reason()));
  }
  const Restoration::Gathered gathered = restoration_.Gather(roster_, rejoins_, snapshots_, now_);
  for (const WorkerId worker : gathered.start) effects_.emplace_back(StartWorker{worker});
  if (!gathered.done) return;
  if (gathered.missing) {
    End({.how = EndJob::How::kStageLost,
         .reason = fmt::format("{}; no process has come for it within {:.0f} s",
                               restoration_.reason(), ToMilliseconds(options_.join_timeout) / 1000),
         .parameters_sha256 = ""});
    return;
  }
  TakeGathered();
  BeginGeneration();
}

bool Coordinator::FeedSnapshot(std::int32_t version) {
  if (!snapshots_.Suffices(version)) return false;
  std::vector<WorkerId> receivers = roster_.Live();
  for (const WorkerId worker : rejoins_.Joiners()) {
    if (roster_.NumLeft(worker.stage) == 0) receivers.push_back(worker);
  }
  return std::all_of(receivers.begin(), receivers.end(),
                     [&](WorkerId worker) { return snapshots_.Feed(worker, version); });
}

// From memory those come along that have their state.
void Coordinator::TakeGathered() {
  std::vector<WorkerId> taken;
  if (restoration_.from_memory()) {
    taken = rejoins_.Joiners();
    std::erase_if(taken, [this](WorkerId worker) {
      return !snapshots_.Has(worker, *restoration_.version());
    });
    rejoins_.TakeOnly(taken);
    AbsorbRejoins();
  } else {
    taken = rejoins_.TakeAll();
  }
  for (const WorkerId worker : taken) MakeLive(worker);
}

void Coordinator::StartOver(std::int32_t version) {
  effects_.emplace_back(
      AnnounceRestored{.version = version,
                       .lost_iterations = std::max(0, completion_.iterations_done() - version),
                       .from_memory = restoration_.from_memory()});
  completion_.RestartAt(version);
  snapshots_.StartOver(version, restoration_.from_memory());
  restoration_.Finish();
  for (const WorkerId member : roster_.Live()) roster_.At(member).version = version;
  // What was told, and what was lost of it, is void.
  work_ = AssignedWork();
  changes_.TakeUnplanned();
  unresumed_shares_.clear();
  changes_.TakeRejoins();
  comparison_.StartOver();
  rollbacks_.clear();
  redone_.clear();
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
