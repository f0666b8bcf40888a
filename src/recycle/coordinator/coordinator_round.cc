// The round of a generation: its record, Prepare, the ledgers, Resume, and what is announced of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/coordinator/coordinator.h"
#include "recycle/coordinator/regroup.h"

namespace recycle {
namespace {

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

void Coordinator::BeginGeneration() {
  generation_ = Generation(generation_.value() + 1);
  decided_ = now_;
  phase_ = Phase::kStoring;
  GenerationRecord record = changes_.TakeRecord(generation_, roster_, rejoins_.Admitted(),
                                                restoration_.version(), restoration_.from_memory());
  record.measured = costs_.measured();
  record.moving = role_changes_.moving();
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
      SendLeave(worker);
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

void Coordinator::EndStandstill() {
  if (completion_.AnyFinishedAt(options_.iterations)) return;
  const std::optional<Duration> since = standstill_.TakeFinding(now_);
  if (!since) return;
  effects_.emplace_back(AnnounceWarning{fmt::format(
      "nobody has finished an action for {:.1f} s, though everybody lives (a network that "
      "swallows messages?): all links are made anew",
      ToMilliseconds(*since) / 1000)});
  changes_.EndStandstill(AllLinks(roster_.Live()), *since);
}

void Coordinator::SendLeave(WorkerId worker) {
  const std::optional<WorkerId> next = role_changes_.NextPlaceOf(worker);
  if (next) roster_.At(worker).pid = 0;  // its process is another place's
  Send(worker, Leave{next});
}

// Called with the first ledger, while the others still finish their running action.
void Coordinator::MakePlanIfNeeded() {
  PlanQuestion question{
      .failed = roster_.Lost(), .slow = stragglers_.Slow(), .measured = costs_.measured()};
  if (plan_ != nullptr && question == plan_question_) return;
  StatusOr<Plan> plan = make_plan_(question);
  if (!plan.ok()) {
    End({.how = EndJob::How::kFailed,
         .reason = fmt::format("no plan for generation {} ({}): {}", generation_.value(), reason_,
                               std::string(plan.status().message())),
         .parameters_sha256 = ""});
    return;
  }
  plan_ = std::make_shared<const Plan>(*std::move(plan));
  plan_question_ = std::move(question);
}

// Nobody waits: workers go on with the running plan meanwhile.
void Coordinator::ReviewCosts() {
  if (!costs_.due()) return;
  CostReview::Outcome outcome = costs_.Judge(*plan_, plan_question_, make_plan_,
                                             options_.iterations - completion_.iterations_done());
  plan_question_.measured = costs_.measured();
  if (outcome.plan != nullptr) {
    plan_ = std::move(outcome.plan);
    changes_.Replan(outcome.news.deviation);
  }
  effects_.emplace_back(std::move(outcome.news));
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
    changes_.Withdraw(worker, place.how_lost);
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
  standstill_.OnResumed(now_);
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
  role_changes_.OnResumed(now_, now_ - decided_, completion_.iterations_done());
  for (AnnounceRejoin& news : changes_.TakeRejoins()) {
    effects_.emplace_back(std::move(news));
  }
  for (const Link& link : changes_.TakeLinks()) {
    effects_.emplace_back(AnnounceLinkRestored{link.first, link.second});
  }
}

// Not while somebody comes back, to that place it may be, nor once the end is near.
void Coordinator::ConsiderRoleChange() {
  const bool is_calm = options_.role_changes && phase_ == Phase::kTraining && !stop_wanted_ &&
                       !changes_.pending() && rejoins_.Joiners().empty() &&
                       rejoins_.Admitted().empty() &&
                       !completion_.AnyFinishedAt(options_.iterations);
  if (!is_calm) return;
  const auto plan = [this](const std::vector<WorkerId>& failed) {
    PlanQuestion question = plan_question_;
    question.failed = failed;
    return make_plan_(question);  // all of them for the same costs
  };
  const std::optional<AnnounceRoleChange> change =
      role_changes_.Begin(plan, completion_.iterations_done(), options_.iterations, now_);
  if (change) Send(change->from, Drain{change->to});
}

}  // namespace recycle
