#include "recycle/coordinator/stragglers.h"

#include <gtest/gtest.h>

namespace recycle {
namespace {

constexpr double kFactor = 1.5;

// Three peers of one stage; iterations pass, and everybody's pace is heard in each.
class StragglersTest : public ::testing::Test {
 protected:
  StragglersTest() {
    for (const WorkerId worker : roster_.Expected()) {
      roster_.At(worker).presence = Place::Presence::kLive;
    }
  }

  WorkerId Peer(int pipeline) const { return {PipelineId(pipeline), StageId(0)}; }

  // Iterations until somebody's verdict changes; at most 20.
  std::optional<Stragglers::Change> Train(const std::vector<double>& paces) {
    for (iterations_ = 1; iterations_ <= 20; ++iterations_) {
      for (int k = 0; k < 3; ++k) {
        Place& place = roster_.At(Peer(k));
        ++place.version;
        place.ns_per_tick = paces[static_cast<std::size_t>(k)];
        if (const auto change = stragglers_.Judge(Peer(k))) return change;
      }
    }
    return std::nullopt;
  }

  Roster roster_{Parallelism{.data = 3, .pipeline = 1}};
  Stragglers stragglers_{kFactor, &roster_};
  int iterations_ = 0;
};

TEST_F(StragglersTest, IsNamedWithItsScoreAndForgivenOnceItKeepsUp) {
  EXPECT_FALSE(Train({10, 11, 9}));
  const auto slow = Train({10, 20, 9});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->worker, Peer(1));
  EXPECT_DOUBLE_EQ(slow->score, 2.0);  // over the median of the others
  EXPECT_TRUE(slow->is_slow);
  EXPECT_LE(iterations_, 10);
  EXPECT_EQ(stragglers_.Slow(), (std::vector<SlowWorker>{{Peer(1), 2.0}}));
  EXPECT_FALSE(Train({10, 13, 10}));  // neither slow enough nor fast enough to change anything
  const auto recovered = Train({10, 12, 10});
  ASSERT_TRUE(recovered);
  EXPECT_FALSE(recovered->is_slow);
  EXPECT_TRUE(stragglers_.Slow().empty());
}

TEST_F(StragglersTest, AShortDelayNamesNobody) {
  for (int i = 0; i < 10; ++i) {
    roster_.At(Peer(1)).ns_per_tick = i % 3 == 2 ? 10 : 50;  // two of three iterations
    roster_.At(Peer(0)).ns_per_tick = roster_.At(Peer(2)).ns_per_tick = 10;
    ++roster_.At(Peer(1)).version;
    EXPECT_FALSE(stragglers_.Judge(Peer(1)));
  }
}

TEST_F(StragglersTest, NobodyIsSlowAlone) {
  roster_.At(Peer(0)).presence = roster_.At(Peer(2)).presence = Place::Presence::kLost;
  EXPECT_FALSE(Train({10, 20, 10}));
}

}  // namespace
}  // namespace recycle
