// What a run folder's files say of a job that earlier coordinators have led: a new one goes on
// where they stopped, without a line lost or doubled.
//
//   RC_ASSIGN_OR_RETURN(RunHistory history, RunHistory::Read(folder));
//   history.iterations_done();   // by metrics.jsonl
//
// A value; empty for a new run. Thread-safe.
#ifndef RECYCLE_APP_RUN_HISTORY_H_
#define RECYCLE_APP_RUN_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "recycle/app/event_writer.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/regroup.h"

namespace recycle {

class RunHistory {
 public:
  // Also cuts off what a dying coordinator has left half done: a torn last line, samples of an
  // iteration whose line in metrics.jsonl is missing (it is written last). Nobody else may be
  // writing. Error: a file cannot be read or cut.
  static StatusOr<RunHistory> Read(const RunFolder& folder);

  const std::vector<Json>& events() const { return events_; }
  const std::vector<Json>& metrics() const { return metrics_; }
  std::vector<Json> Events(std::string_view name) const;

  std::int32_t iterations_done() const;
  std::optional<double> last_loss() const;
  // The newest generation that was announced; the newest that everybody had resumed. 0: none.
  Generation announced() const { return NewestOf("generation"); }
  Generation resumed() const { return NewestOf("resumed"); }

  // Has everybody gone back to a checkpoint since `generation` was announced?
  bool RestoredIn(Generation generation) const;

  // What everybody was told when they resumed last, by the run folder's plans; without a plan if
  // they are not there.
  AssignedWork LastTold(const RunFolder& folder) const;

 private:
  Generation NewestOf(std::string_view event) const;

  std::vector<Json> events_;
  std::vector<Json> metrics_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_RUN_HISTORY_H_
