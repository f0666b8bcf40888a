#include "recycle/executor/micro_batch_ledger.h"

#include <gtest/gtest.h>

#include "recycle/executor/boundary.h"

namespace recycle {
namespace {

constexpr int kMicroBatches = 3;

Action Parse(const char* text) { return *ParseAction(text); }

MicroBatch Named(int home, int index) { return {PipelineId(home), index}; }

TEST(MicroBatchLedger, ReportsWhatEveryOpenIterationLeft) {
  MicroBatchLedger ledger;
  for (const char* done :
       {"1F0.0", "1F1.2", "1I0.0", "1W0.0", "1F2.1", "1I2.1", "1F0.1", "1B0.1"}) {
    ledger.Record(4, Parse(done));
  }
  ledger.Record(5, Parse("1F0.0"));
  const FrameKey received{4, FrameKind::kGradient, StageId(1), 5};
  const FrameKey early{6, FrameKind::kActivation, StageId(1), 3};
  const FrameKey logged{4, FrameKind::kActivation, StageId(2), 0};
  const std::map<int, IterationLedger> report =
      ledger.Report({received, early}, {logged}, kMicroBatches);
  ASSERT_EQ(report.size(), 3U);
  const std::map<MicroBatch, Progress> expected = {{Named(0, 0), Progress::kWeight},
                                                   {Named(0, 1), Progress::kWeight},
                                                   {Named(1, 2), Progress::kForward},
                                                   {Named(2, 1), Progress::kInput}};
  const IterationLedger& fourth = report.at(4);
  EXPECT_EQ(fourth.iteration, 4);
  EXPECT_EQ(fourth.progress, expected);
  EXPECT_EQ(fourth.inbox,
            (std::vector<BoundaryTensor>{{BoundaryKind::kGradient, StageId(1), Named(1, 2)}}));
  EXPECT_EQ(fourth.log,
            (std::vector<BoundaryTensor>{{BoundaryKind::kActivation, StageId(2), Named(0, 0)}}));
  EXPECT_EQ(report.at(5).progress.size(), 1U);
  EXPECT_TRUE(report.at(6).progress.empty());
  EXPECT_EQ(report.at(6).inbox.size(), 1U) << "a peer that has stepped sends early";
  ledger.DropBefore(5);
  EXPECT_EQ(ledger.Report({}, {}, kMicroBatches).size(), 1U);
}

TEST(MicroBatchLedgerDeathTest, AnActionRunsOnceAndInOrder) {
  MicroBatchLedger ledger;
  ledger.Record(0, Parse("1F0.0"));
  EXPECT_DEATH(ledger.Record(0, Parse("1F0.0")), "out of order");
  EXPECT_DEATH(ledger.Record(0, Parse("1W0.0")), "out of order");
  EXPECT_DEATH(ledger.Record(1, Parse("1I0.0")), "out of order");
}

// Whoever consumes a tensor gets it; of the rest of an iteration that can be nobody.
TEST(Boundary, RoutesFollowTheConsumingAction) {
  Plan plan;
  const WorkerId above{PipelineId(1), StageId(2)};
  const WorkerId below{PipelineId(0), StageId(0)};
  plan.workers = {{below, {Parse("0I0.1"), Parse("0B1.0"), Parse("0W0.2")}},
                  {above, {Parse("2F0.0"), Parse("2I0.1")}}};
  const Routes routes(plan, StageId(1));
  EXPECT_EQ(routes.ConsumerOf({BoundaryKind::kActivation, StageId(2), Named(0, 0)}), above);
  EXPECT_EQ(routes.ConsumerOf({BoundaryKind::kActivation, StageId(2), Named(0, 1)}), std::nullopt);
  EXPECT_EQ(routes.ConsumerOf({BoundaryKind::kGradient, StageId(0), Named(0, 1)}), below);
  EXPECT_EQ(routes.ConsumerOf({BoundaryKind::kGradient, StageId(0), Named(1, 0)}), below);
  EXPECT_EQ(routes.ConsumerOf({BoundaryKind::kGradient, StageId(0), Named(0, 2)}), std::nullopt);
}

TEST(Boundary, KeysAndTensorsNameTheSameThing) {
  const FrameKey key{7, FrameKind::kGradient, StageId(2), 5};
  EXPECT_EQ(ToFrameKey(ToBoundaryTensor(key, kMicroBatches), 7, kMicroBatches), key);
}

}  // namespace
}  // namespace recycle
