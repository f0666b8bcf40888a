#include "recycle/executor/micro_batch_results.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace recycle {
namespace {

std::vector<double> Sum(const MicroBatchResults& a, const MicroBatchResults& b) {
  std::vector<double> sum(a.values().begin(), a.values().end());
  std::transform(sum.begin(), sum.end(), b.values().begin(), sum.begin(), std::plus<>());
  return sum;
}

TEST(MicroBatchResults, SumOverWorkersNamesWhoRanWhat) {
  MicroBatchResults first(4);
  MicroBatchResults second(4);
  first.Record(0, PipelineId(0), 1.5, 16);
  first.Record(3, PipelineId(0), 4.5, 16);
  second.Record(1, PipelineId(1), 2.5, 16);
  second.Record(2, PipelineId(1), 3.5, 16);
  second.SetStopWanted();
  const StatusOr<IterationResults> all = DecodeResults(Sum(first, second), 2, 16);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->stop_wanted);
  ASSERT_EQ(all->micro_batches.size(), 4U);
  EXPECT_EQ(all->micro_batches[3].micro_batch, (MicroBatch{PipelineId(1), 1}));
  EXPECT_EQ(all->micro_batches[3].executed_by, PipelineId(0));
  EXPECT_EQ(all->micro_batches[3].loss_sum, 4.5);
  EXPECT_EQ(all->micro_batches[1].executed_by, PipelineId(1));
}

TEST(MicroBatchResults, LostAndDoubledMicroBatchesAreFound) {
  MicroBatchResults first(2);
  MicroBatchResults second(2);
  first.Record(0, PipelineId(0), 1.0, 16);
  EXPECT_EQ(DecodeResults(Sum(first, second), 1, 16).status().code(), StatusCode::kDataLoss);
  second.Record(1, PipelineId(1), 1.0, 16);
  EXPECT_TRUE(DecodeResults(Sum(first, second), 1, 16).ok());
  second.Record(0, PipelineId(1), 1.0, 16);
  EXPECT_EQ(DecodeResults(Sum(first, second), 1, 16).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace recycle
