#include "recycle/executor/trace_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "recycle/base/log.h"

namespace recycle {
namespace {

std::int64_t Microseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) GiveUp(errno);
}

TraceWriter::~TraceWriter() {
  if (file_ >= 0) close(file_);
}

void TraceWriter::Write(const ExecutedAction& executed) {
  if (file_ < 0) return;
  const std::string line =
      fmt::format(R"({{"a":"{}","it":{},"g":{},"s":{},"e":{},"att":{}{}}})"
                  "\n",
                  ToString(executed.action), executed.iteration + 1, executed.generation.value(),
                  Microseconds(executed.start), Microseconds(executed.end), executed.attempt,
                  executed.regenerated ? R"(,"rg":1)" : "");
  const ssize_t written = write(file_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) GiveUp(written < 0 ? errno : ENOSPC);
}

void TraceWriter::GiveUp(int error) {
  LogWarning("no trace from here on: {}: {}", path_, std::strerror(error));
  if (file_ >= 0) close(file_);
  file_ = -1;
}

}  // namespace recycle
