// The coordinator's line to its launcher: one inherited socket. JSON objects go out, one a line,
// {"kind": ..., "line": {...}}; the only thing that comes in is "stop".
//
// A launcher that is stopped (Ctrl-Z) must not stop training: nothing here ever blocks. What the
// socket does not take waits in memory, up to a bound; beyond it lines are dropped (the run folder
// has them all).
//
//   kind      line
//   address   {"address": "127.0.0.1:40213"}: the coordinator listens
//   event     as in events.jsonl
//   metrics   as in metrics.jsonl
//   warning   {"text": ...}
//   summary   as in summary.json
//
// Not thread-safe.
#ifndef RECYCLE_APP_LAUNCHER_LINK_H_
#define RECYCLE_APP_LAUNCHER_LINK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "recycle/app/event_writer.h"

namespace recycle {

inline constexpr std::string_view kStopCommand = "stop\n";

class LauncherLink {
 public:
  // Takes over `descriptor`, a stream socket; -1 for a coordinator without a launcher.
  explicit LauncherLink(int descriptor);
  ~LauncherLink();
  LauncherLink(const LauncherLink&) = delete;
  LauncherLink& operator=(const LauncherLink&) = delete;

  void Send(std::string_view kind, const Json& line);

  // For poll: readable means Receive has something to say, writable (if wanted) that Flush gets on.
  int descriptor() const { return descriptor_; }
  bool wants_to_write() const { return !outbox_.empty(); }
  void Flush();

  enum class Received { kNothing, kStop, kClosed };
  // Does not block.
  Received Receive();

 private:
  int descriptor_;
  std::string outbox_;
  std::int64_t dropped_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_APP_LAUNCHER_LINK_H_
