// The executor's part of the trace: one line of JSON per executed action, written with one write(2)
// right after the action, so that a killed worker's trace tells what it had completed.
//
//   {"a":"0F1.3","it":5,"g":2,"s":81012345,"e":81013001,"att":1}
//
// a = action, it = iteration from 1, g = generation, s and e = start and end on the machine's
// monotonic clock in us (of a paced worker: by its profile's time, divided by its time scale), att
// = which generation, of those in which this worker worked at the iteration, from 1. A line of an
// action that only makes a lost boundary tensor anew ends in "rg":1.
//
// Appends, as LineFile. Belongs to the training thread.
#ifndef RECYCLE_EXECUTOR_TRACE_WRITER_H_
#define RECYCLE_EXECUTOR_TRACE_WRITER_H_

#include <cstdint>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/executor/line_file.h"
#include "recycle/plan/action.h"

namespace recycle {

struct ExecutedAction {
  Action action;
  int iteration = 0;  // 0-based; written + 1
  Generation generation;
  TimePoint start;
  TimePoint end;
  int attempt = 1;
  bool regenerated = false;
};

class TraceWriter {
 public:
  // An empty `path`: no trace.
  explicit TraceWriter(const std::string& path, double time_scale = 1)
      : time_scale_(time_scale), file_(path, "trace") {}

  void Write(const ExecutedAction& executed);

 private:
  std::int64_t Microseconds(TimePoint time) const;

  const double time_scale_;
  LineFile file_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_TRACE_WRITER_H_
