// The thread that reads the control link, so that the coordinator is heard whatever the training
// thread does: it answers Ask at once, obeys Fence at once, hands copies of state to their owner,
// and leaves everything else in the mailbox.
//
// Joined by the destructor: close the control link first.
#ifndef RECYCLE_EXECUTOR_CONTROL_READER_H_
#define RECYCLE_EXECUTOR_CONTROL_READER_H_

#include <functional>
#include <thread>

#include "recycle/executor/control_link.h"
#include "recycle/executor/control_mailbox.h"
#include "recycle/executor/snapshot_keeper.h"
#include "recycle/executor/state_transfers.h"

namespace recycle {

class ControlReader {
 public:
  // `on_prepare` is called with each Prepare before it goes to the mailbox, `on_leave` with a Leave
  // before the mailbox says that it is the end, `on_fence` with a fence's reason; it does not
  // return.
  ControlReader(ControlLink& control, ControlMailbox& mailbox, StateTransfers& transfers,
                SnapshotKeeper& snapshots, std::function<void(const Prepare&)> on_prepare,
                std::function<void(const std::string& reason)> on_fence,
                std::function<void(const Leave&)> on_leave);
  ~ControlReader() { thread_.join(); }
  ControlReader(const ControlReader&) = delete;
  ControlReader& operator=(const ControlReader&) = delete;

 private:
  void Loop();
  void Handle(CoordinatorMessage message);

  ControlLink& control_;
  ControlMailbox& mailbox_;
  StateTransfers& transfers_;
  SnapshotKeeper& snapshots_;
  const std::function<void(const Prepare&)> on_prepare_;
  const std::function<void(const std::string& reason)> on_fence_;
  const std::function<void(const Leave&)> on_leave_;
  std::thread thread_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_CONTROL_READER_H_
