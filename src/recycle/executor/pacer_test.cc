#include "recycle/executor/pacer.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace recycle {
namespace {

using std::chrono::milliseconds;

constexpr Ticks kMs = kTicksPerUnit;

// Three stages; stage 1's frames take 2 ms from below and 3 ms from above.
CostProfile Costs() {
  CostProfile costs;
  costs.stages.resize(3);
  StageCosts& stage = costs.stages[1];
  stage.forward = 10 * kMs;
  stage.backward_input = 20 * kMs;
  stage.backward_weight = 5 * kMs;
  stage.optimizer = 7 * kMs;
  stage.all_reduce = 4 * kMs;
  costs.send_forward = {2 * kMs, 50 * kMs};
  costs.send_backward = {50 * kMs, 3 * kMs};
  return costs;
}

// A pacer whose machine's clock moves when told, or when it waits.
class PacerTest : public ::testing::Test {
 protected:
  explicit PacerTest(double time_scale = 1)
      : pacer_(StageId(1), {time_scale, Costs()}, wall_, [this](TimePoint time) {
          waited_until_.push_back(time);
          wall_.Advance(time - wall_.Now());
        }) {
    wall_.Advance(std::chrono::hours(1));
    pacer_.CatchUp();
    start_ = pacer_.Now();
  }

  // Since the test began, by the pacer.
  Duration Elapsed() const { return pacer_.Now() - start_; }

  ManualClock wall_;
  std::vector<TimePoint> waited_until_;
  Pacer pacer_;
  TimePoint start_;
};

TEST_F(PacerTest, EveryKindLastsAsTheProfileSays) {
  Duration expected{};
  for (const auto& [kind, lasts] : std::vector<std::pair<ActionKind, milliseconds>>{
           {ActionKind::kForward, milliseconds(10)},
           {ActionKind::kBackwardInput, milliseconds(20)},
           {ActionKind::kBackwardWeight, milliseconds(5)},
           {ActionKind::kBackward, milliseconds(25)},
           {ActionKind::kReduceGrad, milliseconds(4)},
           {ActionKind::kValidate, milliseconds(0)},
           {ActionKind::kStep, milliseconds(7)}}) {
    pacer_.Hold(kind);
    expected += lasts;
    EXPECT_EQ(Elapsed(), expected) << KindText(kind);
    EXPECT_EQ(wall_.Now(), pacer_.Now());
  }
  pacer_.Hold(ActionKind::kForward, /*factor=*/2.5);
  EXPECT_EQ(Elapsed(), expected + milliseconds(25));
}

TEST_F(PacerTest, AnActionWaitsForItsInputAndTheWayItTakes) {
  pacer_.Arrive(FrameKind::kActivation, start_ + milliseconds(40));
  EXPECT_EQ(Elapsed(), milliseconds(42));
  pacer_.Hold(ActionKind::kForward);
  EXPECT_EQ(Elapsed(), milliseconds(52));
  pacer_.Arrive(FrameKind::kGradient, start_ + milliseconds(45));  // was there before
  EXPECT_EQ(Elapsed(), milliseconds(52));
  pacer_.Arrive(FrameKind::kGradient, start_ + milliseconds(60));
  EXPECT_EQ(Elapsed(), milliseconds(63));
  pacer_.Arrive(FrameKind::kNormUp, start_ + milliseconds(70));  // rides for nothing
  EXPECT_EQ(Elapsed(), milliseconds(70));
}

TEST_F(PacerTest, LatenessIsMadeUpForAndNeverShows) {
  pacer_.Hold(ActionKind::kForward);
  wall_.Advance(milliseconds(32));  // stopped, while it computes the next ones
  for (int i = 0; i < 3; ++i) pacer_.Hold(ActionKind::kForward);
  EXPECT_EQ(waited_until_.size(), 1U) << "a late worker does not wait";
  pacer_.Hold(ActionKind::kForward);
  EXPECT_EQ(Elapsed(), milliseconds(50));
  EXPECT_EQ(wall_.Now(), pacer_.Now());
}

TEST_F(PacerTest, ARegroupTakesTheTimeItTakes) {
  wall_.Advance(milliseconds(30));
  pacer_.CatchUp();
  EXPECT_EQ(Elapsed(), milliseconds(30));
  pacer_.Hold(ActionKind::kForward);
  wall_.Advance(-milliseconds(1));
  pacer_.CatchUp();
  EXPECT_EQ(Elapsed(), milliseconds(40)) << "time does not go back";
}

class HundredfoldPacerTest : public PacerTest {
 protected:
  HundredfoldPacerTest() : PacerTest(0.01) {}
};

TEST_F(HundredfoldPacerTest, DurationsAreScaledAndStampsAreNot) {
  pacer_.Hold(ActionKind::kForward);
  EXPECT_EQ(Elapsed(), std::chrono::microseconds(100));
  pacer_.Arrive(FrameKind::kActivation, start_ + milliseconds(1));
  EXPECT_EQ(Elapsed(), std::chrono::microseconds(1020));
}

// The members of a real group leave the round at the time of the one that came last.
TEST(PacerMeetTest, TheLatestMemberDecides) {
  const std::shared_ptr<Device> device = *Device::Create("127.0.0.1");
  std::vector<std::unique_ptr<ReduceGroup>> group;
  for (int rank = 0; rank < 2; ++rank) {
    group.push_back(*ReduceGroup::Open(device, rank, 2, Generation(1)));
  }
  const std::string ends[] = {group[0]->addresses().at(1), group[1]->addresses().at(0)};
  std::vector<Duration> left(2);
  std::vector<std::thread> members;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    members.emplace_back([&, rank] {
      ASSERT_TRUE(group[rank]->Connect({{1 - rank, ends[1 - rank]}}).ok());
      ManualClock wall;
      Pacer pacer(StageId(1), {1, Costs()}, wall, [](TimePoint) {});
      pacer.Spend(milliseconds(rank == 0 ? 9 : 2));
      ASSERT_TRUE(pacer.Meet(*group[rank]).ok());
      left[rank] = pacer.Now().time_since_epoch();
    });
  }
  for (std::thread& member : members) member.join();
  EXPECT_EQ(left, std::vector<Duration>(2, milliseconds(9)));
}

}  // namespace
}  // namespace recycle
