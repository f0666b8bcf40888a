#include "recycle/coordinator/snapshot_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace recycle {
namespace {

WorkerId MakeWorker(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

std::vector<WorkerId> Workers(int data, int pipeline) {
  std::vector<WorkerId> workers;
  for (int k = 0; k < data; ++k) {
    for (int i = 0; i < pipeline; ++i) workers.push_back(MakeWorker(k, i));
  }
  return workers;
}

TEST(SnapshotRoutes, TheCopyIsWithAnotherStageAndDutiesAreSpread) {
  const SnapshotRoutes routes = RouteSnapshots(Workers(3, 4), 1, {});
  ASSERT_EQ(routes.size(), 4U);
  std::set<WorkerId> busy;
  for (const auto& [stage, route] : routes) {
    EXPECT_EQ(route.source.stage, stage);
    EXPECT_NE(route.holder.stage, stage);
    EXPECT_TRUE(busy.insert(route.source).second);
    EXPECT_TRUE(busy.insert(route.holder).second);
  }
}

// Two hosts, pipelines 0 and 2 on one. Stage 1 lives on that one alone: its copy is on the other.
TEST(SnapshotRoutes, TheCopyIsWhereFewestWorkersOfTheStageAre) {
  std::vector<WorkerId> live = Workers(4, 2);
  std::erase(live, MakeWorker(1, 1));
  std::erase(live, MakeWorker(3, 1));
  const SnapshotRoutes routes = RouteSnapshots(live, 2, {});
  EXPECT_EQ(routes.at(StageId(1)).holder.pipeline.value() % 2, 1);
}

TEST(SnapshotRoutes, NothingMovesWithoutNeed) {
  std::vector<WorkerId> live = Workers(3, 3);
  const SnapshotRoutes before = RouteSnapshots(live, 1, {});
  const SnapshotRoute lost = before.at(StageId(1));
  std::erase(live, lost.holder);
  const SnapshotRoutes after = RouteSnapshots(live, 1, before);
  for (const auto& [stage, route] : before) {
    if (route.holder != lost.holder && route.source != lost.holder) {
      EXPECT_EQ(after.at(stage), route) << stage.value();
    }
  }
  EXPECT_EQ(after.at(StageId(1)).source, lost.source);
  EXPECT_NE(after.at(StageId(1)).holder, lost.holder);
}

TEST(SnapshotRoutes, AStageAloneHasNobodyToHoldIt) {
  EXPECT_TRUE(RouteSnapshots(Workers(4, 1), 1, {}).empty());
}

}  // namespace
}  // namespace recycle
