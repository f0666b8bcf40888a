// What the coordinator wants, between the thread that reads the control link and the training
// thread. Only the newest Prepare counts; while one waits (or the job is over, or the coordinator
// is gone) the training thread is interrupted: whatever it blocks in is woken, and interrupted()
// tells it to stop at the end of the running action.
//
//   StatusOr<Prepare> prepare = mailbox.WaitForPrepare();      // training thread
//   mailbox.Post(std::move(prepare));                          // control thread
//
// Thread-safe: one thread waits.
#ifndef RECYCLE_EXECUTOR_CONTROL_MAILBOX_H_
#define RECYCLE_EXECUTOR_CONTROL_MAILBOX_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// Things that can block the training thread: comm, behind one face.
class Interruptible {
 public:
  virtual ~Interruptible() = default;
  // Every blocked or later call returns kAborted with `why`, until Rearm. Never blocks for long.
  virtual void Interrupt(const std::string& why) = 0;
  virtual void Rearm() = 0;
};

class ControlMailbox {
 public:
  // `comm` must outlive the mailbox.
  explicit ControlMailbox(Interruptible& comm) : comm_(comm) {}
  ControlMailbox(const ControlMailbox&) = delete;
  ControlMailbox& operator=(const ControlMailbox&) = delete;

  // --- control thread ---

  // Replaces a Prepare that still waits; pairs to relink are kept from it, so none is forgotten.
  void Post(Prepare prepare);
  // Of another generation than the newest Prepare's: ignored.
  void Post(Resume resume);
  void PostStopRequest();
  void Post(const Drain& drain);  // the newest counts
  // The job is over for this worker: `why` is kCancelled (Leave) or kUnavailable (the control link
  // is gone). The first one counts.
  void PostEnd(Status why);

  // A joiner's state is complete as of its Prepare (OK), or will not come. ForgetState: another
  // copy begins. From any thread.
  void PostState(Status arrived);
  void ForgetState();

  // --- training thread ---

  // Blocks for the newest Prepare and makes comm usable again. Error: PostEnd's.
  StatusOr<Prepare> WaitForPrepare();
  // Blocks for the Resume of the Prepare taken last. Errors: kAborted if a newer Prepare came;
  // PostEnd's.
  StatusOr<Resume> WaitForResume();
  // Blocks for PostState and returns what was posted. Other errors as WaitForResume.
  Status WaitForState();
  // Does the training thread have to stop what it does?
  bool interrupted() const;
  bool stop_requested() const;
  // Has this worker been asked to leave? Returned once for each request.
  std::optional<Drain> TakeDrain();
  // Lets `duration` pass, or less if interrupted.
  void Pause(Duration duration) const;

 private:
  bool interrupted_locked() const { return prepare_.has_value() || !end_.ok(); }

  Interruptible& comm_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Prepare> prepare_;  // not yet taken
  std::optional<Resume> resume_;    // of the newest Prepare
  Generation newest_;               // of the Prepares posted
  std::optional<Status> state_;
  bool stop_requested_ = false;
  std::optional<Drain> drain_;  // not yet taken
  Status end_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_CONTROL_MAILBOX_H_
