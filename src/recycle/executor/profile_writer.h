// What `recycle profile` needs to know of an executor beyond its trace: one line of JSON for each
// action's change of the bytes held by tensors, for each frame sent, and for each one that came.
//
//   {"a":"0F1.3","it":5,"held":81920}            held more after the action than before it
//   {"sent":"activation","it":5,"mb":7,"to":"1:1","n":16384,"t":81012345}     n = payload bytes
//   {"came":"activation","it":5,"mb":7,"n":16384,"t":81012399}
//   {"parameters":123456,"state":370368}         bytes; state = parameters + moments
//
// it = iteration from 1; mb = global index of the micro-batch, -1 where there is none; t in us of
// the machine's monotonic clock: when the frame was queued, and when it was there to be taken.
//
// Appends, as LineFile. Thread-safe: frames come in the links' threads.
#ifndef RECYCLE_EXECUTOR_PROFILE_WRITER_H_
#define RECYCLE_EXECUTOR_PROFILE_WRITER_H_

#include <cstdint>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/comm/frame.h"
#include "recycle/executor/line_file.h"
#include "recycle/plan/action.h"

namespace recycle {

class ProfileWriter {
 public:
  // An empty `path`: nothing is written.
  ProfileWriter(const std::string& path, const Clock& clock)
      : clock_(clock), file_(path, "profile") {}

  bool on() const { return file_.on(); }
  void WriteState(std::int64_t parameter_bytes, std::int64_t state_bytes);
  // `iteration` from 0.
  void WriteHeld(const Action& action, int iteration, std::int64_t bytes);
  void WriteSent(WorkerId to, const FrameKey& key, std::size_t bytes);
  void WriteArrived(const FrameKey& key, std::size_t bytes);

 private:
  std::int64_t NowMicroseconds() const;

  const Clock& clock_;
  LineFile file_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_PROFILE_WRITER_H_
