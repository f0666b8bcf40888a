#include "recycle/coordinator/snapshot_routes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace recycle {
namespace {

int HostOf(WorkerId worker, int num_hosts) { return worker.pipeline.value() % num_hosts; }

WorkerId SourceOf(StageId stage, const std::vector<WorkerId>& live, const SnapshotRoutes& current) {
  const auto route = current.find(stage);
  if (route != current.end() &&
      std::find(live.begin(), live.end(), route->second.source) != live.end()) {
    return route->second.source;
  }
  return *std::find_if(live.begin(), live.end(),
                       [stage](WorkerId worker) { return worker.stage == stage; });
}

}  // namespace

SnapshotRoutes RouteSnapshots(const std::vector<WorkerId>& live, int num_hosts,
                              const SnapshotRoutes& current) {
  std::set<StageId> stages;
  for (const WorkerId worker : live) stages.insert(worker.stage);
  SnapshotRoutes routes;
  if (stages.size() < 2) return routes;
  std::map<WorkerId, int> duties;  // copies sent and held
  for (const StageId stage : stages) {
    routes[stage].source = SourceOf(stage, live, current);
    ++duties[routes[stage].source];
  }
  for (const StageId stage : stages) {
    std::map<int, int> on_host;  // workers of the stage
    for (const WorkerId worker : live) {
      if (worker.stage == stage) ++on_host[HostOf(worker, num_hosts)];
    }
    const auto now = current.find(stage);
    std::optional<std::tuple<int, bool, int, WorkerId>> best;
    for (const WorkerId worker : live) {
      if (worker.stage == stage) continue;
      const bool moves = now != current.end() && now->second.holder != worker;
      const std::tuple<int, bool, int, WorkerId> candidate(on_host[HostOf(worker, num_hosts)],
                                                           moves, duties[worker], worker);
      if (!best || candidate < *best) best = candidate;
    }
    routes[stage].holder = std::get<WorkerId>(*best);
    ++duties[routes[stage].holder];
  }
  return routes;
}

}  // namespace recycle
