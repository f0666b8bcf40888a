// The line-by-line files of a run folder (events, metrics, samples): JSON objects, one a line, that
// survive a full disk. A line is written whole or not at all; what does not fit is lost, is
// counted, and is said once; writing goes on as soon as there is room again.
//
//   RecordFile metrics(folder.Metrics(), [](const std::string& warning) { ... });
//   metrics.Append(line.dump());
//
// Not thread-safe: one thread owns a file.
#ifndef RECYCLE_APP_EVENT_WRITER_H_
#define RECYCLE_APP_EVENT_WRITER_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"

namespace recycle {

// Keys stay in the order they were set, so that lines read well.
using Json = nlohmann::ordered_json;

class RecordFile {
 public:
  // `warn` gets one sentence when lines begin to be lost and one when there is room again.
  RecordFile(std::string path, std::function<void(const std::string&)> warn);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Appends `line` and a newline with one write. The process has to ignore SIGXFSZ.
  void Append(std::string_view line);

  std::int64_t lost() const { return lost_; }

 private:
  // 0, or the errno of what failed; nothing of `text` is left in the file then.
  int TryAppend(std::string_view text);

  const std::string path_;
  const std::function<void(const std::string&)> warn_;
  int file_ = -1;
  std::int64_t lost_ = 0;         // in all
  std::int64_t lost_in_row_ = 0;  // since the last line that was written
};

// The objects of a file of JSON lines, without a last one that is cut off; none if there is no
// file.
std::vector<Json> ReadLines(const std::string& path);

// Cuts a file of JSON lines off before the first one whose "iteration" is above `iteration`, or
// that is no such line. Nothing if there is no file. Error: kPermissionDenied.
Status DropLinesAfter(const std::string& path, int iteration);

// Seconds since the epoch to the microsecond, as all files write times.
double RoundedSeconds(double unix_seconds);

// A number of a line. JSON has none that is not finite: null stands for those.
double NumberOf(const Json& value);

// The beginning of an event: {"time": ..., "event": name}.
Json MakeEvent(double unix_seconds, std::string_view name);

}  // namespace recycle

#endif  // RECYCLE_APP_EVENT_WRITER_H_
