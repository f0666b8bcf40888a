// Who keeps the copy of a stage's snapshot that outlives the stage, and who sends it there.
//
// A holder is a worker of another stage: on a host with as few workers of the stage as there is,
// so that what takes the stage does not take its copy; then whoever holds it already; then whoever
// has least to do with snapshots.
//
//   SnapshotRoutes routes = RouteSnapshots(live, num_hosts, routes);
//
// Pure. Source: "Snapshots" of docs/RECOVERY.md.
#ifndef RECYCLE_COORDINATOR_SNAPSHOT_ROUTES_H_
#define RECYCLE_COORDINATOR_SNAPSHOT_ROUTES_H_

#include <map>
#include <vector>

#include "recycle/base/ids.h"

namespace recycle {

struct SnapshotRoute {
  WorkerId source;  // a live worker of the stage
  WorkerId holder;  // one of another stage
  bool operator==(const SnapshotRoute&) const = default;
};
using SnapshotRoutes = std::map<StageId, SnapshotRoute>;

// One route for each stage of the `live` workers; none if they are all of one stage. Pipelines are
// dealt to the hosts in turn. `current`: the routes until now, kept where they are as good.
SnapshotRoutes RouteSnapshots(const std::vector<WorkerId>& live, int num_hosts,
                              const SnapshotRoutes& current);

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_SNAPSHOT_ROUTES_H_
