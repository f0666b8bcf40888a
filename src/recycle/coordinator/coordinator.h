// The coordinator's brain: a pure function from (state, event, now) to (state, effects, reason).
// It knows no thread, no clock, no network, no tensor: app/ feeds it events and carries out effects
// in their order.
//
// Rules of detection (docs/RECOVERY.md): a link report is a suspicion, not a verdict. Dead at once:
// waitpid, or a suspicion plus a closed control stream or a second reporter. A lone suspicion asks
// the accused, which has 50 ms to answer: then the link is made anew. Silence longer than the
// failure timeout is death. A link that broke three times within 60 s removes the worker with more
// bad links.
//
// Rules of a generation: its record is stored before anyone is told; Resume is sent when every
// member has answered Prepare; whatever happens in between leads to the next generation.
//
// Resume follows from the ledgers (plan_resume.h): survivors keep what they have. A lost place may
// come back (rejoins.h), and a worker may leave when it is asked to: generations like any other. It
// may do both to even out where workers were lost (role_changes.h). A stage that has no worker left
// goes back to a snapshot in memory (snapshot_sets.h) or else to a checkpoint, and all others with
// it (restoration.h).
//
// A step that turns out wrong after some stage has made it is corrected in a generation, too: the
// ledgers carry the verdict, and every stage applies it at Resume before anything else.
//
// So are sums that a gradient did not fit (reproducible sums): their stage makes them again.
//
// A coordinator that comes after another one (inheritance.h) waits until every member of the stored
// record has said hello to it or is known to be lost, silence for the failure timeout included, and
// begins a generation. So does one whose control stream to a member was made anew.
//
//   Coordinator coordinator(options, make_plan, order_remainder, canonical_parameters);
//   std::vector<Effect> effects = coordinator.Step(event, now);
//
// The first Step, whatever its event, starts the join timeout. Not thread-safe: one thread owns it.
#ifndef RECYCLE_COORDINATOR_COORDINATOR_H_
#define RECYCLE_COORDINATOR_COORDINATOR_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/completion.h"
#include "recycle/coordinator/coordinator_options.h"
#include "recycle/coordinator/cost_review.h"
#include "recycle/coordinator/detection.h"
#include "recycle/coordinator/events.h"
#include "recycle/coordinator/inheritance.h"
#include "recycle/coordinator/membership_changes.h"
#include "recycle/coordinator/plan_question.h"
#include "recycle/coordinator/plan_resume.h"
#include "recycle/coordinator/regroup.h"
#include "recycle/coordinator/rejoins.h"
#include "recycle/coordinator/restoration.h"
#include "recycle/coordinator/role_changes.h"
#include "recycle/coordinator/roster.h"
#include "recycle/coordinator/snapshot_sets.h"
#include "recycle/coordinator/standstill.h"
#include "recycle/coordinator/state_comparison.h"
#include "recycle/coordinator/stragglers.h"
#include "recycle/coordinator/transfer_numbers.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class Coordinator {
 public:
  // `options` must be valid. `canonical_parameters`: every parameter's name, in the order in which
  // they are hashed at the end. `inheritance`: absent for the first coordinator of a job, and for
  // one whose predecessor stored no generation.
  Coordinator(const CoordinatorOptions& options, MakePlanFunction make_plan,
              OrderRemainderFunction order_remainder, std::vector<std::string> canonical_parameters,
              std::optional<Inheritance> inheritance = std::nullopt);

  // After EndJob every event is ignored.
  std::vector<Effect> Step(const Event& event, TimePoint now);

  // When TimePassed should be sent at the latest; absent: nothing is pending.
  std::optional<TimePoint> NextDeadline() const;

  // For `recycle status`.
  struct View {
    Generation generation;
    std::vector<WorkerId> live;
    std::vector<WorkerId> joining;  // processes that copy the state and are no members yet
    std::int32_t iteration = 0;     // iterations done
    std::optional<double> loss;     // mean over the tokens of the last one
    // "joining", "regrouping", "restoring", "training", "finishing", "over"
    std::string phase;
    std::string reason;  // of the running generation
  };
  View view() const;

 private:
  enum class Phase : std::uint8_t {
    kJoining,    // until everyone (of the inherited record) has said hello or is known dead
    kStoring,    // the generation's record is on its way to the store
    kPreparing,  // Prepare is out, ledgers come in
    kResuming,   // Resume is out, first actions start
    kTraining,
    kRestoring,  // a checkpoint is being chosen, or workers for a lost stage or their state awaited
    kOver,
  };

  void Handle(const FromExecutor& event);
  void Handle(const StreamClosed& event);
  void Handle(const FromAgent& event);
  void Handle(const AgentLost& event);
  void Handle(const TimePassed& event);
  void Handle(const StopWanted& event);
  void Handle(const RecordStored& event);
  void Handle(const CheckpointChosen& event);
  void Handle(const DrainWanted& event);

  void Receive(WorkerId from, const Hello& message);
  void Receive(WorkerId from, const Heartbeat& message);
  void Receive(WorkerId from, const LinkBroken& message);
  void Receive(WorkerId from, const StillHere& message);
  void Receive(WorkerId from, const Ledger& message);
  void Receive(WorkerId from, const Resumed& message);
  void Receive(WorkerId from, const IterationDone& message);
  void Receive(WorkerId from, const LastWords& message);
  void Receive(WorkerId from, const FaultReport& message);
  void Receive(WorkerId from, const Finished& message);
  void Receive(WorkerId from, const TransferOpened& message);
  void Receive(WorkerId from, const TransferBroken& message);
  void Receive(WorkerId /*from*/, const CaughtUp& /*late: it is a member*/) {}
  void Receive(WorkerId from, const StateHash& message);
  void Receive(WorkerId from, const Departing& message);
  void Receive(WorkerId from, const ShardWritten& message);
  void Receive(WorkerId from, const RestoreFailed& message);
  void Receive(WorkerId from, const SnapshotHeld& message) {
    snapshots_.Receive(from, message, now_);
  }
  void Receive(WorkerId from, const Amend& message);
  void Receive(WorkerId from, const Outgrown& message);
  void Receive(WorkerId from, const MeasuredCosts& message) { costs_.Receive(from, message); }

  // Reproducible sums: is it the arithmetic of whoever came first? If not, it is fenced.
  bool HasJobsArithmetic(WorkerId worker, const Hello& message);
  void TakeOver(Inheritance inheritance);
  // A member of the inherited record says hello. False: it counts as lost with that.
  bool IsStillMember(WorkerId worker, const Hello& message);
  // When those that are still expected are waited for no longer.
  // Nobody could be heard, and nobody could come, for so long.
  void ForgiveGap(Duration gap);
  TimePoint JoinDeadline() const;
  void OnJoinTimeout();
  // What the process says that holds the lost place `worker`.
  void HearFromLost(WorkerId worker, const ExecutorMessage& message);
  void HearHelloFromLost(WorkerId worker, const Hello& message);
  // Takes over what detection and rejoins have decided, then moves the phase on as far as it goes.
  void AbsorbFindings();
  void AbsorbRejoins();
  void AbsorbSnapshots();
  void Advance();
  // Nobody gets on though all live: every link is made anew.
  void EndStandstill();
  // Copies go on beside the training; who has caught up becomes a member.
  void TakeBackJoiners();
  // Asks a worker to leave its place for a vacant one, if that pays. After every iteration.
  void ConsiderRoleChange();
  // To a worker that has left its place.
  void SendLeave(WorkerId worker);
  void BeginGeneration();
  void SendPrepare();
  void SendResume();
  // Joiners that cannot go on: they leave, and may begin again.
  void GiveUpStranded(const std::vector<WorkerId>& stranded);
  // `work` is what everybody has been told: what the lost had been told before is lost with them.
  void NoteWork(AssignedWork work);
  void JudgeSkippedStep(std::int32_t iteration, std::int32_t in_a_row);
  void NoteCorrections(const ResumeDecision& decision);
  void AnnounceEverybodyResumed();
  void MakePlanIfNeeded();
  // Is there a better plan, by what workers have measured?
  void ReviewCosts();
  // The worker of a lost place is a member from now on.
  void MakeLive(WorkerId worker);
  // A stage that has no worker left, as far as that is news.
  std::optional<StageId> LostStage() const;
  // A stage has no worker left: back to a snapshot or a checkpoint, or the end of the job.
  void LoseStage(StageId stage);
  void GoBack(const std::string& reason);
  void GoBackToSnapshot(const std::string& reason, std::int32_t version);
  // `failed`: a checkpoint that could not be loaded.
  void GoBackToCheckpoint(const std::string& reason, std::optional<std::int32_t> failed);
  void GatherWorkers();
  // False: somebody cannot get its stage's snapshot.
  bool FeedSnapshot(std::int32_t version);
  void TakeGathered();
  // Everybody has its state: what was done since does not count.
  void StartOver(std::int32_t version);
  void End(EndJob end);
  void Send(WorkerId to, CoordinatorMessage message);

  const CoordinatorOptions options_;
  MakePlanFunction make_plan_;
  OrderRemainderFunction order_remainder_;
  Roster roster_;
  Detection detection_;
  Completion completion_;
  TransferNumbers transfer_numbers_;
  Rejoins rejoins_;
  SnapshotSets snapshots_;
  StateComparison comparison_{&roster_};
  Stragglers stragglers_;
  Standstill standstill_;
  CostReview costs_{&roster_};
  Restoration restoration_;
  RoleChanges role_changes_;

  Phase phase_ = Phase::kJoining;
  bool succeeds_ = false;                  // another coordinator led before
  std::optional<std::string> arithmetic_;  // the job's
  bool stop_wanted_ = false;
  std::optional<TimePoint> started_;

  // The newest generation, and how far its round has come.
  Generation generation_;
  std::string reason_;
  TimePoint decided_;
  std::map<WorkerId, Ledger> ledgers_;
  std::set<WorkerId> resumed_;

  // The plan of the newest round, and what it was made for; and what the last Resume told
  // everybody.
  std::shared_ptr<const Plan> plan_;
  PlanQuestion plan_question_;
  AssignedWork work_;
  int regenerated_actions_ = 0;
  std::map<StageId, Verdict> rollbacks_;  // told, and not resumed from by everybody
  std::map<StageId, Quantum> redone_;     // the same

  MembershipChanges changes_;
  std::vector<LostShare> unresumed_shares_;
  // Of links to members that have not come to this coordinator yet, by those; and who reports.
  std::map<WorkerId, std::vector<std::pair<WorkerId, LinkBroken>>> early_reports_;
  std::map<WorkerId, WorkerId> inherited_returns_;  // and their donors: no members without a ledger

  std::map<WorkerId, int> corruptions_;
  std::set<WorkerId> to_repair_;  // lost with a wrong state: a new process gets a peer's

  TimePoint now_;                // of the newest Step
  std::vector<Effect> effects_;  // of the Step in progress
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_COORDINATOR_H_
