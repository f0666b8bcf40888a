#include "recycle/executor/control_mailbox.h"

#include <fmt/format.h>

#include <utility>

#include "recycle/base/check.h"

namespace recycle {

void ControlMailbox::Post(Prepare prepare) {
  const std::lock_guard lock(mutex_);
  if (prepare.generation <= newest_) return;
  newest_ = prepare.generation;
  resume_.reset();
  if (prepare_.has_value()) {
    prepare.relinked.insert(prepare.relinked.end(), prepare_->relinked.begin(),
                            prepare_->relinked.end());
  }
  prepare_ = std::move(prepare);
  comm_.Interrupt(fmt::format("generation {} is prepared", newest_.value()));
  changed_.notify_all();
}

void ControlMailbox::Post(Resume resume) {
  const std::lock_guard lock(mutex_);
  if (resume.generation != newest_) return;
  resume_ = std::move(resume);
  changed_.notify_all();
}

void ControlMailbox::PostStopRequest() {
  const std::lock_guard lock(mutex_);
  stop_requested_ = true;
}

void ControlMailbox::Post(const Drain& drain) {
  const std::lock_guard lock(mutex_);
  drain_ = drain;
}

void ControlMailbox::PostState(Status arrived) {
  const std::lock_guard lock(mutex_);
  state_ = std::move(arrived);
  changed_.notify_all();
}

void ControlMailbox::ForgetState() {
  const std::lock_guard lock(mutex_);
  state_.reset();
}

void ControlMailbox::PostEnd(Status why) {
  RC_CHECK(!why.ok()) << "an end needs a reason";
  const std::lock_guard lock(mutex_);
  if (!end_.ok()) return;
  end_ = std::move(why);
  comm_.Interrupt("the job is over");
  changed_.notify_all();
}

StatusOr<Prepare> ControlMailbox::WaitForPrepare() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return interrupted_locked(); });
  if (!end_.ok()) return end_;
  Prepare prepare = *std::move(prepare_);
  prepare_.reset();
  comm_.Rearm();
  return prepare;
}

StatusOr<Resume> ControlMailbox::WaitForResume() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return interrupted_locked() || resume_.has_value(); });
  if (!end_.ok()) return end_;
  if (prepare_.has_value()) return absl::AbortedError("a newer generation is prepared");
  Resume resume = *std::move(resume_);
  resume_.reset();
  return resume;
}

Status ControlMailbox::WaitForState() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return interrupted_locked() || state_.has_value(); });
  if (!end_.ok()) return end_;
  if (prepare_.has_value()) return absl::AbortedError("a newer generation is prepared");
  Status state = *std::move(state_);
  state_.reset();
  return state;
}

bool ControlMailbox::interrupted() const {
  const std::lock_guard lock(mutex_);
  return interrupted_locked();
}

bool ControlMailbox::stop_requested() const {
  const std::lock_guard lock(mutex_);
  return stop_requested_;
}

std::optional<Drain> ControlMailbox::TakeDrain() {
  const std::lock_guard lock(mutex_);
  return std::exchange(drain_, std::nullopt);
}

void ControlMailbox::Pause(Duration duration) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, duration, [this] { return interrupted_locked(); });
}

}  // namespace recycle
