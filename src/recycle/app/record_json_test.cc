#include "recycle/app/record_json.h"

#include <gtest/gtest.h>

#include <chrono>

namespace recycle {
namespace {

WorkerId Member(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

TEST(RecordJson, WhatACoordinatorStoresTheNextOneReads) {
  const TimePoint now(std::chrono::seconds(100));
  const GenerationRecord record{.generation = Generation(7),
                                .members = {Member(0, 0), Member(0, 1)},
                                .pids = {{Member(0, 0), 11}, {Member(0, 1), 12}},
                                .lost = {{.worker = Member(1, 0),
                                          .cause = LossCause::kNotice,
                                          .detected_by = "1:0",
                                          .first_signal = now - std::chrono::milliseconds(3),
                                          .iteration = 5}},
                                .returning = {{Member(0, 1), Member(2, 1)}},
                                .relinked = {{Member(0, 0), Member(0, 1)}},
                                .restore = 4,
                                .from_memory = true,
                                .moving = {{Member(1, 0), Member(1, 1)}},
                                .reason = "worker 1:0 leaves"};
  const std::string text = ToJson(record, now);
  const StatusOr<GenerationRecord> read = RecordFromJson(text, now);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read, now), text);
  EXPECT_EQ(read->moving, record.moving);
  EXPECT_EQ(read->lost.front().cause, LossCause::kNotice);
  EXPECT_EQ(RecordFromJson("{}", now).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace recycle
