#include "recycle/app/fault_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "recycle/app/event_writer.h"

namespace recycle {
namespace {

constexpr WorkerId At(int pipeline, int stage) {
  return WorkerId{PipelineId(pipeline), StageId(stage)};
}

class FaultLedgerTest : public ::testing::Test {
 protected:
  FaultLedgerTest() : folder_(MakeFolder()) {}
  ~FaultLedgerTest() override { std::filesystem::remove_all(folder_.root()); }

  static RunFolder MakeFolder() {
    std::string pattern = ::testing::TempDir() + "/ledger-XXXXXX";
    return *RunFolder::Create(mkdtemp(pattern.data()), "job.yaml", SystemClock());
  }

  FaultLedger Ledger(const std::vector<std::string>& texts) const {
    std::vector<Fault> faults;
    faults.reserve(texts.size());
    for (const std::string& text : texts) faults.push_back(*ParseFault(text));
    return {faults, folder_, /*agents=*/2};
  }

  void Stamp(int fault, WorkerId worker, std::int64_t monotonic_ns) const {
    std::ofstream(folder_.FaultStamp(fault, worker))
        << Json{{"index", fault},       {"worker", ToString(worker)},
                {"iteration", 3},       {"monotonic_ns", monotonic_ns},
                {"unix_s", 1700000000}, {"point", "F"}};
  }

  RunFolder folder_;
};

TEST_F(FaultLedgerTest, AStampIsNewOnceAndUnfiredFaultsAreMissed) {
  FaultLedger ledger = Ledger({"kill 1:1 at F", "slow x2 0:0 at F", "kill 2:0 at W"});
  EXPECT_THAT(ledger.TakeNew(), ::testing::IsEmpty());
  Stamp(1, At(0, 0), 200);
  Stamp(0, At(1, 1), 100);
  const std::vector<FaultStamp> fired = ledger.TakeNew();
  ASSERT_EQ(fired.size(), 2U);
  EXPECT_EQ(fired[0].fault, 0);  // oldest first
  EXPECT_EQ(fired[0].worker, At(1, 1));
  EXPECT_THAT(ledger.TakeNew(), ::testing::IsEmpty());
  EXPECT_THAT(ledger.Missed(), ::testing::ElementsAre(2));
  EXPECT_EQ(ledger.LethalTo(At(1, 1))->time, TimePoint(Duration(100)));
  EXPECT_FALSE(ledger.LethalTo(At(0, 0)).has_value()) << "being slow is not lethal";
}

TEST_F(FaultLedgerTest, AFaultOfAnAgentIsLethalToItsWorkersAlone) {
  FaultLedger ledger = Ledger({"kill agent:1 at F of iteration 3"});
  Stamp(0, At(1, 0), 100);
  ledger.TakeNew();
  EXPECT_TRUE(ledger.LethalTo(At(1, 1)).has_value());
  EXPECT_TRUE(ledger.LethalTo(At(3, 0)).has_value());
  EXPECT_FALSE(ledger.LethalTo(At(0, 0)).has_value());
}

TEST_F(FaultLedgerTest, ADamagedStampIsLeftOut) {
  FaultLedger ledger = Ledger({"kill 1:1 at F"});
  std::ofstream(folder_.FaultStamp(0, At(1, 1))) << "{\"index\": 7}";
  EXPECT_THAT(ledger.TakeNew(), ::testing::IsEmpty());
  EXPECT_THAT(ledger.Missed(), ::testing::ElementsAre(0));
}

TEST(TargetText, IsWhatInjectReads) {
  for (const char* target : {"1:1", "agent:0", "stage 2", "all"}) {
    const StatusOr<Fault> fault = ParseFault(std::string("kill ") + target + " at F");
    ASSERT_TRUE(fault.ok()) << fault.status();
    EXPECT_EQ(TargetText(fault->target), target);
  }
}

}  // namespace
}  // namespace recycle
