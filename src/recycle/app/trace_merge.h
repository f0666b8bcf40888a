// The trace of a run. Executors append a line per executed action to files of their own (their
// parts); at the end the parts become one trace.json in Chrome's format, which Perfetto opens.
//
// A part's line: {"a":"0F1.3","it":20,"g":1,"s":12345,"e":12399,"att":1} = action, iteration (from
// 1), generation, start and end in microseconds of the monotonic clock, attempt at the iteration
// (from 1: how many generations its worker worked at it in), and "rg":1 for an action that only
// made a lost boundary tensor again. The last line may be cut off (its writer was killed): it is
// left out.
//
//   RC_RETURN_IF_ERROR(MergeTrace({{folder.TracePart(worker), worker}, ...}, folder.Trace()));
#ifndef RECYCLE_APP_TRACE_MERGE_H_
#define RECYCLE_APP_TRACE_MERGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/action.h"

namespace recycle {

// One executed action.
struct TraceSpan {
  WorkerId worker;
  Action action;
  std::int32_t iteration = 1;  // from 1
  std::int32_t attempt = 1;    // from 1
  Generation generation;
  std::int64_t start_us = 0;  // monotonic clock
  std::int64_t end_us = 0;
  bool regenerated = false;
  bool operator==(const TraceSpan&) const = default;
};

// Calls `on_span` for every complete line of a part; for none if there is no such file (the worker
// never ran an action). Error: kDataLoss naming file and line for a complete line that makes no
// sense.
Status ForEachSpan(const std::string& path, WorkerId worker,
                   const std::function<void(const TraceSpan&)>& on_span);

// How many actions with a micro-batch (B counts 2) `worker` completed at `iteration` (from 1),
// going by its part; regenerations do not count. Reads the end of the file only. Errors as
// ForEachSpan.
StatusOr<int> CountCompleted(const std::string& path, WorkerId worker, std::int32_t iteration);

struct TracePart {
  std::string path;
  WorkerId worker;
};

// Writes a Chrome trace to `path`: process = pipeline, thread = stage, args {action, iteration,
// attempt, generation, replayed, regenerated}. An action is `replayed` if an older generation had
// completed it (or a part of it: B is I and W) in the same iteration and it is no regeneration.
// Times count from the first action. Memory does not grow with the length of the run. Errors as
// ForEachSpan and AtomicFile::Commit.
Status MergeTrace(const std::vector<TracePart>& parts, const std::string& path);

}  // namespace recycle

#endif  // RECYCLE_APP_TRACE_MERGE_H_
