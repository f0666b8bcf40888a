#include "recycle/executor/state_transfers.h"

#include <algorithm>
#include <utility>

#include "recycle/base/log.h"

namespace recycle {

StateTransfers::StateTransfers(WorkerId self, double copy_bytes_per_second,
                               std::shared_ptr<Device> device, ControlLink& control,
                               ControlMailbox& mailbox, FaultInjector& injector, Position& position)
    : self_(self),
      copy_bytes_per_second_(copy_bytes_per_second),
      device_(std::move(device)),
      control_(control),
      mailbox_(mailbox),
      injector_(injector),
      position_(position) {}

// --- control thread. Copies are destroyed outside the lock: that waits for their threads.

void StateTransfers::Handle(const Transfer& transfer) {
  const bool opens = transfer.donor_end.empty();
  if (opens && transfer.donor == self_) return OpenDonor(transfer);
  if (opens && transfer.joiner == self_) return OpenJoiner(transfer);
  const std::lock_guard lock(mutex_);
  if (const auto donor = donors_.find(transfer.transfer); donor != donors_.end()) {
    donor->second->Begin(transfer.joiner_end);
  } else if (joiner_ != nullptr && joiner_transfer_ == transfer.transfer) {
    donor_end_ = transfer.donor_end;
    BeginJoiner();
  }
}

void StateTransfers::OpenDonor(const Transfer& transfer) {
  const std::int64_t id = transfer.transfer;
  LogInfo("gives the state of its stage to {}", ToString(transfer.joiner));
  auto donor = std::make_unique<StateDonor>(
      device_, transfer, copy_bytes_per_second_, [this, id](const std::string& error) {
        control_.Send(TransferBroken{.transfer = id, .error = error});
      });
  control_.Send(TransferOpened{.transfer = id, .address = donor->address()});
  const std::lock_guard lock(mutex_);
  donors_.try_emplace(id, std::move(donor));
}

void StateTransfers::OpenJoiner(const Transfer& transfer) {
  const std::int64_t id = transfer.transfer;
  LogInfo("takes over the state of {}", ToString(transfer.donor));
  std::unique_ptr<StateJoiner> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::move(joiner_);
  }
  old.reset();
  mailbox_.ForgetState();
  StateJoiner::Events events;
  events.at_version = [this](int version) { position_.version = version; };
  events.half_way = [this](int version) { injector_.At(FaultPoint::kJoin, version); };
  events.caught_up = [this](const CaughtUp& caught_up) { control_.Send(caught_up); };
  events.over = [this, id](const Status& status) {
    if (absl::IsAborted(status)) return;  // ended from here
    if (!status.ok()) {
      control_.Send(TransferBroken{.transfer = id, .error = std::string(status.message())});
    }
    mailbox_.PostState(status.ok() ? status : absl::UnavailableError(status.message()));
  };
  auto joiner = std::make_unique<StateJoiner>(device_, transfer, std::move(events));
  control_.Send(TransferOpened{.transfer = id, .address = joiner->address()});
  const std::lock_guard lock(mutex_);
  awaits_state_ = true;
  joiner_ = std::move(joiner);
  joiner_transfer_ = id;
  donor_end_.clear();
}

void StateTransfers::BeginJoiner() {
  if (step_ != nullptr && joiner_ != nullptr && !donor_end_.empty()) {
    joiner_->Begin(donor_end_, *step_);
  }
}

void StateTransfers::Handle(const EndTransfer& end) {
  std::unique_ptr<StateDonor> donor;
  std::unique_ptr<StateJoiner> joiner;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = donors_.find(end.transfer); found != donors_.end()) {
      donor = std::move(found->second);
      donors_.erase(found);
    }
    if (joiner_transfer_ == end.transfer) joiner = std::move(joiner_);
  }
  if (joiner == nullptr) return;
  joiner.reset();
  mailbox_.PostState(absl::UnavailableError("the copy of the state was given up"));
}

// --- training thread ---

void StateTransfers::Attach(OptimizerStep& step) {
  const std::lock_guard lock(mutex_);
  step_ = &step;
  BeginJoiner();
}

void StateTransfers::Detach() {
  std::unique_ptr<StateJoiner> joiner;
  {
    const std::lock_guard lock(mutex_);
    joiner = std::move(joiner_);
    step_ = nullptr;
  }
}

bool StateTransfers::is_joiner() const {
  const std::lock_guard lock(mutex_);
  return awaits_state_;
}

void StateTransfers::NoteRestored() {
  const std::lock_guard lock(mutex_);
  awaits_state_ = false;
}

StatusOr<bool> StateTransfers::TakeState() {
  RC_RETURN_IF_ERROR(mailbox_.WaitForState());
  std::unique_ptr<StateJoiner> joiner;
  {
    const std::lock_guard lock(mutex_);
    joiner = std::move(joiner_);
    if (joiner != nullptr) awaits_state_ = false;
  }
  if (joiner == nullptr) return absl::UnavailableError("the copy of the state was given up");
  return joiner->owes_validation();
}

void StateTransfers::AfterStep(OptimizerStep& step) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, donor] : donors_) donor->AfterStep(step);
}

void StateTransfers::Admit(const std::vector<WorkerId>& members, const OptimizerStep& step,
                           bool owes_validation) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, donor] : donors_) {
    if (std::count(members.begin(), members.end(), donor->joiner()) == 0) continue;
    donor->End(step, owes_validation);
  }
}

}  // namespace recycle
