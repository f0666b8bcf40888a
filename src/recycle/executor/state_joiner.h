// The receiving side of one copy of a stage's state: writes what comes straight into the
// parameters and moments of a worker that does not train yet, and makes the donor's steps on them.
//
//   StateJoiner joiner(device, transfer, events);
//   Publish(joiner.address());
//   joiner.Begin(donor_end, optimizer_step);
//
// Its thread owns the numbers from Begin until events.over has been called. Not thread-safe;
// belongs to one thread.
// Source: "Coming back" of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_STATE_JOINER_H_
#define RECYCLE_EXECUTOR_STATE_JOINER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/comm/device.h"
#include "recycle/executor/optimizer_step.h"
#include "recycle/executor/state_receiver.h"
#include "recycle/executor/state_record.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class StateJoiner {
 public:
  // Called in the copy's thread.
  struct Events {
    std::function<void(int version)> at_version;     // of what has arrived
    std::function<void(int version)> half_way;       // half of the parameters are here; once
    std::function<void(const CaughtUp&)> caught_up;  // all parameters are here; once
    // The state of the donor's version is here (OK), or will not come. Once, the last.
    std::function<void(const Status& status)> over;
  };

  StateJoiner(const std::shared_ptr<Device>& device, const Transfer& transfer, Events events);

  // This end's, for the donor.
  const std::string& address() const { return receiver_.address(); }

  // Connects to the donor's end and receives, in the copy's own thread. Once. `step` must outlive
  // the object.
  void Begin(const std::string& donor_end, OptimizerStep& step);

  // After events.over(OK).
  bool owes_validation() const { return owes_validation_; }

 private:
  Status Receive(OptimizerStep& step);
  Status Apply(const StateRecordHeader& header, const std::vector<std::byte>& bytes,
               OptimizerStep& step);
  Status ApplyStep(const StateRecordHeader& header, const std::vector<std::byte>& bytes,
                   OptimizerStep& step);

  const std::int64_t transfer_;
  const Events events_;

  std::vector<ParameterState> state_;  // the copy's thread's, as all down to bytes_
  std::size_t arrived_ = 0;            // parameters
  int version_ = 0;                    // of all that has arrived
  std::int64_t bytes_ = 0;             // of parameters
  TimePoint met_;
  bool owes_validation_ = false;

  StateReceiver receiver_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STATE_JOINER_H_
