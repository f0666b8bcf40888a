#include "recycle/executor/norm_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

WorkerId WorkerAt(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

TEST(NormRoutes, OwnPipelineWhereItLives) {
  const std::vector<WorkerId> members = {WorkerAt(0, 0), WorkerAt(0, 1), WorkerAt(1, 0),
                                         WorkerAt(2, 0), WorkerAt(2, 1)};
  EXPECT_EQ(NormSource(members, WorkerAt(2, 0), StageId(1)), WorkerAt(2, 1));
  EXPECT_EQ(NormSource(members, WorkerAt(1, 0), StageId(1)), WorkerAt(2, 1)) << "rank 1 mod 2";
  EXPECT_EQ(NormListeners(members, WorkerAt(2, 1), StageId(0)),
            (std::vector<WorkerId>{WorkerAt(1, 0), WorkerAt(2, 0)}));
  EXPECT_TRUE(NormListeners(members, WorkerAt(1, 0), StageId(1)).empty());
}

// Whoever died: every worker hears exactly one live worker of each neighbouring stage.
TEST(NormRoutes, EveryWorkerIsHeardToOnceWhoeverDied) {
  constexpr std::uint64_t kSeed = 11;
  Prng prng(kSeed);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<WorkerId> members;
    for (int k = 0; k < 5; ++k) {
      for (int i = 0; i < 3; ++i) {
        if (k == i || prng.Below(2) == 0) members.push_back(WorkerAt(k, i));
      }
    }
    for (const WorkerId listener : members) {
      for (const int stage : {listener.stage.value() - 1, listener.stage.value() + 1}) {
        if (stage < 0 || stage > 2) continue;
        const WorkerId source = NormSource(members, listener, StageId(stage));
        EXPECT_TRUE(std::binary_search(members.begin(), members.end(), source));
        int heard = 0;
        for (const WorkerId speaker : members) {
          if (speaker.stage != StageId(stage)) continue;
          const std::vector<WorkerId> to = NormListeners(members, speaker, listener.stage);
          heard += static_cast<int>(std::count(to.begin(), to.end(), listener));
        }
        EXPECT_EQ(heard, 1) << "seed " << kSeed << ", trial " << trial << ", " << listener;
      }
    }
  }
}

}  // namespace
}  // namespace recycle
