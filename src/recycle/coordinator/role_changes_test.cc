#include "recycle/coordinator/role_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "recycle/coordinator/testing_plan.h"

namespace recycle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

WorkerId PlaceAt(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

TEST(JudgeRoleChange, GainIsForAsLongAgainAndCostIsTheCopyAndTwoGenerations) {
  RoleChangeFigures figures{.period_now = 200,
                            .period_meanwhile = 400,
                            .period_after = 100,
                            .vacant = seconds(60),
                            .left = seconds(1000),
                            .copying = seconds(4),
                            .regroup = milliseconds(500)};
  const RoleChangeVerdict verdict = JudgeRoleChange(figures);
  EXPECT_EQ(verdict.gain, seconds(30));  // half of 60 s
  EXPECT_EQ(verdict.cost, seconds(3));   // half of 4 s, and 1 s
  EXPECT_TRUE(verdict.pays);
  EXPECT_EQ(verdict.reason,
            "iterations are planned to take 50% of the time then, a gain of 30.00 s in the next "
            "60.00 s, and 200% during the copy of 4.00 s, a cost of 3.00 s with two generations");
  // Exactly at the point where both are equal it does not pay yet.
  figures.vacant = seconds(6);
  EXPECT_FALSE(JudgeRoleChange(figures).pays);
  figures.vacant += milliseconds(10);
  EXPECT_TRUE(JudgeRoleChange(figures).pays);
  // Nothing is gained after the job's end, nor before the copy is done.
  figures.left = seconds(6);
  EXPECT_EQ(JudgeRoleChange(figures).gain, seconds(1));
  EXPECT_FALSE(JudgeRoleChange(figures).pays);
  figures.left = seconds(3);
  EXPECT_EQ(JudgeRoleChange(figures).gain, seconds(0));
}

// Four pipelines of three stages, an iteration a second, one failure timeout of a second.
class RoleChangesTest : public ::testing::Test {
 protected:
  explicit RoleChangesTest(RoleChanges::Options options = {.hosts = 1,
                                                           .respawns = false,
                                                           .failure_timeout = seconds(1),
                                                           .copy_bytes_per_second = {}})
      : changes_(options, &roster_), plan_(PlanMaker({.data = 4, .pipeline = 3}, 6)) {
    for (const WorkerId worker : roster_.Expected()) {
      roster_.At(worker).presence = Place::Presence::kLive;
    }
  }

  void Lose(const std::vector<WorkerId>& workers) {
    for (const WorkerId worker : workers) {
      roster_.At(worker).presence = Place::Presence::kLost;
      changes_.OnLost(worker);
    }
    Resume();
  }
  void Resume() { changes_.OnResumed(TimePoint(seconds(now_s_)), milliseconds(10), now_s_); }

  std::optional<AnnounceRoleChange> BeginAfter(int s) {
    now_s_ += s;
    return changes_.Begin([this](const auto& failed) { return plan_({.failed = failed}); }, now_s_,
                          1000, TimePoint(seconds(now_s_)));
  }

  Roster roster_{Parallelism{.data = 4, .pipeline = 3}};
  RoleChanges changes_;
  MakePlanFunction plan_;
  int now_s_ = 0;
};

TEST_F(RoleChangesTest, AWorkerOfTheFullestStageTakesThePlaceThatHasBeenVacantLongest) {
  Lose({PlaceAt(2, 1)});
  now_s_ += 3;
  Lose({PlaceAt(1, 1), PlaceAt(3, 0)});
  EXPECT_FALSE(BeginAfter(1)) << "somebody may be on the way";
  const auto change = BeginAfter(20);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->from, PlaceAt(3, 2));
  EXPECT_EQ(change->to, PlaceAt(2, 1));
  EXPECT_GT(change->gain, change->cost);
  EXPECT_FALSE(BeginAfter(1)) << "one at a time";
  EXPECT_FALSE(changes_.OnDeparting(PlaceAt(3, 2), std::nullopt))
      << "somebody else asked it to leave";
  EXPECT_TRUE(changes_.moving().empty());
}

TEST_F(RoleChangesTest, AVacancyIsTriedOnceAndFailuresAreNeverSwapped) {
  Lose({PlaceAt(1, 1), PlaceAt(2, 1), PlaceAt(3, 1)});
  const auto first = BeginAfter(100);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->to, PlaceAt(1, 1));
  ASSERT_TRUE(changes_.OnDeparting(first->from, first->to));
  EXPECT_EQ(changes_.NextPlaceOf(first->from), first->to);
  Lose({first->from});
  EXPECT_FALSE(BeginAfter(4)) << "it is on the way";
  // It never comes; the next one goes elsewhere.
  const auto second = BeginAfter(100);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->to, PlaceAt(2, 1));
  ASSERT_TRUE(changes_.OnDeparting(second->from, second->to));
  changes_.OnHello(second->to);
  EXPECT_FALSE(changes_.NextPlaceOf(second->from));
  roster_.At(second->to).presence = Place::Presence::kLive;
  Lose({second->from});
  // Three, two, three: nothing to even out.
  EXPECT_FALSE(BeginAfter(500));
}

TEST_F(RoleChangesTest, AWorkerThatIsNeededMeanwhileStays) {
  Lose({PlaceAt(1, 1), PlaceAt(2, 1)});
  const auto change = BeginAfter(100);
  ASSERT_TRUE(change);
  ASSERT_EQ(change->from, PlaceAt(3, 2));
  Lose({PlaceAt(0, 2)});
  EXPECT_FALSE(changes_.OnDeparting(change->from, change->to));
  EXPECT_TRUE(changes_.moving().empty());
}

class RoleChangesOfHosts : public RoleChangesTest {
 protected:
  RoleChangesOfHosts()
      : RoleChangesTest({.hosts = 2,
                         .respawns = true,
                         .failure_timeout = seconds(1),
                         .copy_bytes_per_second = {}}) {}
};

TEST_F(RoleChangesOfHosts, NobodyIsSentWhereSomebodyIsExpectedOrToAnotherHost) {
  Lose({PlaceAt(0, 1), PlaceAt(2, 1)});
  EXPECT_FALSE(BeginAfter(100)) << "agents start them anew";
  changes_.OnParked(PlaceAt(0, 1));
  const auto change = BeginAfter(1);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->from, PlaceAt(2, 2));  // 3:2 is the other host's
  EXPECT_EQ(change->to, PlaceAt(0, 1));
}

TEST_F(RoleChangesTest, ACoordinatorThatComesAfterKnowsWhoIsOnTheWay) {
  changes_.TakeOver({{PlaceAt(3, 2), PlaceAt(1, 1)}});
  Lose({PlaceAt(3, 2), PlaceAt(1, 1)});
  EXPECT_EQ(changes_.NextPlaceOf(PlaceAt(3, 2)), PlaceAt(1, 1));
  roster_.At(PlaceAt(1, 1)).presence = Place::Presence::kLive;
  Resume();
  EXPECT_TRUE(changes_.moving().empty());
}

}  // namespace
}  // namespace recycle
