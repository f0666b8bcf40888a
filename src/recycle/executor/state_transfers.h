// The copies of state that this worker takes part in: as a donor of any number, or as the joiner of
// one. The coordinator says with whom; nobody who trains waits for a copy.
//
//   transfers.Handle(transfer);           // control thread: Transfer, EndTransfer
//   transfers.Attach(optimizer_step);     // training thread: here the state may be written
//   if (transfers.is_joiner()) ... = transfers.TakeState();   // before its first ledger
//   transfers.AfterStep(optimizer_step);  // a donor's, after each own step
//   transfers.Admit(members, optimizer_step, owes);   // a donor's, at each Prepare
//
// Handle belongs to the control thread, everything else to the training thread.
// Source: "Coming back" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_STATE_TRANSFERS_H_
#define RECYCLE_EXECUTOR_STATE_TRANSFERS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/executor/control_link.h"
#include "recycle/executor/control_mailbox.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/executor/position.h"
#include "recycle/executor/state_donor.h"
#include "recycle/executor/state_joiner.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class StateTransfers {
 public:
  // `copy_bytes_per_second`: 0 = no limit. The references must outlive the object.
  StateTransfers(WorkerId self, double copy_bytes_per_second, std::shared_ptr<Device> device,
                 ControlLink& control, ControlMailbox& mailbox, FaultInjector& injector,
                 Position& position);
  StateTransfers(const StateTransfers&) = delete;
  StateTransfers& operator=(const StateTransfers&) = delete;

  void Handle(const Transfer& transfer);
  void Handle(const EndTransfer& end);

  // `step` is not touched after Detach.
  void Attach(OptimizerStep& step);
  void Detach();

  // Is this worker's state still to be taken over? Also between two copies: without a state it has
  // no ledger to tell.
  bool is_joiner() const;
  // It has one from a checkpoint or a snapshot.
  void NoteRestored();
  // Blocks until the donor's state at its version has been written to the attached step. Returns
  // whether the donor owes the validation pass after its last step. Errors: kUnavailable: it will
  // not come; those of ControlMailbox::WaitForState.
  StatusOr<bool> TakeState();

  void AfterStep(OptimizerStep& step);
  // This worker stands still for a generation of `members`: joiners among them get the rest.
  void Admit(const std::vector<WorkerId>& members, const OptimizerStep& step, bool owes_validation);

 private:
  void OpenDonor(const Transfer& transfer);
  void OpenJoiner(const Transfer& transfer);
  void BeginJoiner();  // with mutex_ held

  const WorkerId self_;
  const double copy_bytes_per_second_;
  const std::shared_ptr<Device> device_;
  ControlLink& control_;
  ControlMailbox& mailbox_;
  FaultInjector& injector_;
  Position& position_;

  mutable std::mutex mutex_;
  OptimizerStep* step_ = nullptr;                               // attached
  std::map<std::int64_t, std::unique_ptr<StateDonor>> donors_;  // by transfer
  bool awaits_state_ = false;
  std::unique_ptr<StateJoiner> joiner_;
  std::int64_t joiner_transfer_ = 0;
  std::string donor_end_;  // joiner_'s, until it begins
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STATE_TRANSFERS_H_
