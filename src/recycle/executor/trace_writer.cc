#include "recycle/executor/trace_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace recycle {

std::int64_t TraceWriter::Microseconds(TimePoint time) const {
  const std::chrono::duration<double, std::micro> since_epoch = time.time_since_epoch();
  return std::llround(since_epoch.count() / time_scale_);
}

void TraceWriter::Write(const ExecutedAction& executed) {
  if (!file_.on()) return;
  file_.Append(fmt::format(
      R"({{"a":"{}","it":{},"g":{},"s":{},"e":{},"att":{}{}}})", ToString(executed.action),
      executed.iteration + 1, executed.generation.value(), Microseconds(executed.start),
      Microseconds(executed.end), executed.attempt, executed.regenerated ? R"(,"rg":1)" : ""));
}

}  // namespace recycle
