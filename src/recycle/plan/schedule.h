// A schedule: per live worker, which actions to run in which order. Plain data.
#ifndef RECYCLE_PLAN_SCHEDULE_H_
#define RECYCLE_PLAN_SCHEDULE_H_

#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/action.h"

namespace recycle {

struct WorkerSchedule {
  WorkerId worker;
  std::vector<Action> actions;
  bool operator==(const WorkerSchedule&) const = default;
};

// One entry per live worker (also when it has no actions), ascending by (pipeline, stage).
using Schedule = std::vector<WorkerSchedule>;

// The actions in order, blank between: "0F0.0 0F0.1 0I0.0 0W0.0".
std::string ToString(const std::vector<Action>& actions);
StatusOr<std::vector<Action>> ParseActions(std::string_view text);

// The entry of `worker`, or nullptr.
const WorkerSchedule* FindWorker(const Schedule& schedule, WorkerId worker);

}  // namespace recycle

#endif  // RECYCLE_PLAN_SCHEDULE_H_
