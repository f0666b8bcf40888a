// One open iteration of PlanResume: who has done what, who runs what is missing, what is sent
// again. plan_resume.h says what it is for.
//
//   OpenWork work(question, t);
//   RC_RETURN_IF_ERROR(work.Settle());
//   StatusOr<OpenIteration> open = work.Describe(order);
//
// Not thread-safe; used once.
#ifndef RECYCLE_COORDINATOR_OPEN_WORK_H_
#define RECYCLE_COORDINATOR_OPEN_WORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/plan_resume.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class OpenWork {
 public:
  // `question` must outlive the object.
  OpenWork(const ResumeQuestion& question, std::int32_t iteration);

  // Decides everything but the order. Errors as PlanResume's.
  Status Settle();

  // After Settle: has anybody begun, or reduced, the iteration?
  bool begun() const { return begun_; }
  int regenerated_actions() const { return regenerated_actions_; }
  // Members that lack a gradient of the iteration which nobody keeps. Describe wants nobody there.
  std::vector<WorkerId> Stranded() const;
  StatusOr<OpenIteration> Describe(const OrderRemainderFunction& order) const;

 private:
  static constexpr std::int32_t kNobody = -1;

  struct Member {
    WorkerId worker;
    const Ledger* ledger = nullptr;
    const IterationLedger* iteration = nullptr;  // absent: nothing of it is kept here
    Ticks load = 0;                              // what it still runs of the iteration
    int regenerations = 0;
    bool past = false;  // has stepped the iteration
    bool holds_stage_part = false;
    bool holds_tied_part = false;
  };
  // What is done of a micro-batch at a stage, and by whom it is run; kNobody on committed stages
  // where nobody who lives has begun it.
  struct Slot {
    std::int32_t owner = kNobody;
    std::uint8_t done = 0;                        // actions out of F, I, W
    std::int32_t regenerator = kNobody;           // committed stages: runs F again
    bool regenerates_input = false;               // and I
    std::int32_t logged[2] = {kNobody, kNobody};  // by kind: who can send this slot its input again
  };

  std::size_t SlotIndex(int stage, MicroBatch micro_batch) const;
  Slot& SlotAt(int stage, MicroBatch micro_batch) { return slots_[SlotIndex(stage, micro_batch)]; }
  const Slot& SlotAt(int stage, MicroBatch micro_batch) const {
    return slots_[SlotIndex(stage, micro_batch)];
  }
  bool InRange(StageId stage, MicroBatch micro_batch) const;
  template <typename Visit>
  void ForEachMicroBatch(Visit visit) const;

  Status Read(std::int32_t member);
  Status NoteProgress(std::int32_t member, MicroBatch micro_batch, Progress last);
  std::uint64_t InboxKey(BoundaryKind kind, std::size_t slot, std::int32_t member) const;
  bool HasInput(BoundaryKind kind, int stage, MicroBatch micro_batch, std::int32_t member) const;
  bool AnyHasInput(BoundaryKind kind, int stage, MicroBatch micro_batch) const;

  bool UnitHolds(const std::vector<int>& stages) const;
  void DecideUnits();
  void AssignOpenStage(int stage);
  Ticks Remaining(const Member& member, int stage, int done) const;

  bool RunsForward(int stage, MicroBatch micro_batch) const;
  bool RunsInput(int stage, MicroBatch micro_batch) const;
  Status CloseDemands();
  Status NeedActivation(int stage, MicroBatch micro_batch, std::int32_t consumer);
  Status NeedGradient(int stage, MicroBatch micro_batch, std::int32_t consumer);
  Status Regenerate(int stage, MicroBatch micro_batch, bool input);
  StatusOr<std::int32_t> ChooseRegenerator(int stage, MicroBatch micro_batch) const;

  std::vector<Resend> FindResends() const;
  // A part of a committed unit's gradient: who can hand it over, and who needs it.
  struct Part {
    ReducedPart part = ReducedPart::kStage;
    const Member* keeper = nullptr;
    std::vector<WorkerId> lacking;
  };
  Part FindPart(ReducedPart part, const std::vector<int>& stages) const;
  std::vector<Part> CommittedParts() const;
  std::vector<HandOver> FindHandOvers() const;
  void ListDone(std::int32_t member, std::vector<Action>& done) const;
  void ListActions(Schedule& workers) const;
  void AddStepsOfCommitted(const std::vector<HandOver>& hand_overs, Plan& rest) const;

  const ResumeQuestion& question_;
  const std::int32_t iteration_;
  const int stages_;
  const int pipelines_;
  const int micro_batches_;
  const bool tied_;
  std::vector<Member> members_;                   // ascending
  std::vector<std::vector<std::int32_t>> peers_;  // by stage
  std::vector<bool> committed_;                   // by stage
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> inbox_;  // sorted InboxKeys
  bool begun_ = false;
  int regenerated_actions_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_OPEN_WORK_H_
