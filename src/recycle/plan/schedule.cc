#include "recycle/plan/schedule.h"

#include <algorithm>

namespace recycle {

std::string ToString(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += ToString(action);
  }
  return text;
}

StatusOr<std::vector<Action>> ParseActions(std::string_view text) {
  std::vector<Action> actions;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(" \t\n", begin)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
    RC_ASSIGN_OR_RETURN(const Action action, ParseAction(text.substr(begin, end - begin)));
    actions.push_back(action);
    begin = end;
  }
  return actions;
}

const WorkerSchedule* FindWorker(const Schedule& schedule, WorkerId worker) {
  const auto found = std::lower_bound(
      schedule.begin(), schedule.end(), worker,
      [](const WorkerSchedule& entry, WorkerId key) { return entry.worker < key; });
  return found != schedule.end() && found->worker == worker ? &*found : nullptr;
}

}  // namespace recycle
