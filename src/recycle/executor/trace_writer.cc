#include "recycle/executor/trace_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>

namespace recycle {
namespace {

std::int64_t Microseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

}  // namespace

void TraceWriter::Write(const ExecutedAction& executed) {
  if (!file_.on()) return;
  file_.Append(fmt::format(
      R"({{"a":"{}","it":{},"g":{},"s":{},"e":{},"att":{}{}}})", ToString(executed.action),
      executed.iteration + 1, executed.generation.value(), Microseconds(executed.start),
      Microseconds(executed.end), executed.attempt, executed.regenerated ? R"(,"rg":1)" : ""));
}

}  // namespace recycle
