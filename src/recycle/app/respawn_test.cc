#include "recycle/app/respawn.h"

#include <gtest/gtest.h>

#include <csignal>

namespace recycle {
namespace {

using std::chrono::seconds;

const WorkerId kWorker{PipelineId(1), StageId(1)};
const WorkerId kOther{PipelineId(0), StageId(1)};
constexpr int kExitOfFenced = 75 << 8;

TEST(Respawns, DelaysDoubleByPlaceUntilItIsParked) {
  Respawns respawns(seconds(10));
  TimePoint now;
  for (const int expected : {10, 20, 40, 80}) {
    const Respawns::Verdict verdict = respawns.OnExit(kWorker, SIGKILL, now);
    EXPECT_EQ(verdict.after, seconds(expected));
    EXPECT_FALSE(verdict.parked);
    EXPECT_TRUE(respawns.TakeDue(now + seconds(expected - 1)).empty());
    now += seconds(expected);
    EXPECT_EQ(respawns.NextDeadline(), now);
    EXPECT_EQ(respawns.TakeDue(now), std::vector<WorkerId>{kWorker});
    EXPECT_TRUE(respawns.TakeDue(now).empty());
  }
  EXPECT_EQ(respawns.OnExit(kOther, kExitOfFenced, now).after, seconds(10));
  const Respawns::Verdict fifth = respawns.OnExit(kWorker, SIGKILL, now);
  EXPECT_FALSE(fifth.after.has_value());
  EXPECT_TRUE(fifth.parked);
  EXPECT_EQ(fifth.deaths, Respawns::kDeathsToPark);
  EXPECT_FALSE(respawns.OnExit(kWorker, SIGKILL, now).parked);  // said once
}

TEST(Respawns, WhoLeftOnPurposeOrWithoutTheOptionStaysAway) {
  Respawns respawns(seconds(10));
  EXPECT_FALSE(respawns.OnExit(kWorker, 0, TimePoint()).after.has_value());
  EXPECT_FALSE(respawns.NextDeadline().has_value());
  Respawns never{std::nullopt};
  EXPECT_FALSE(never.OnExit(kWorker, SIGKILL, TimePoint()).after.has_value());
  EXPECT_FALSE(never.NextDeadline().has_value());
}

}  // namespace
}  // namespace recycle
