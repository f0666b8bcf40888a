#include "recycle/planner/plan_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "recycle/base/prng.h"
#include "recycle/plan/report.h"
#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/normalization.h"

namespace recycle {
namespace {

using testing::At;
using ::testing::HasSubstr;
using testing::kReal;
using testing::MakeRequest;

TEST(PlanTableTest, EveryLineIsLegalMonotoneAndNoFasterThanItsBound) {
  const PlanTable table = PlanTable::Make(MakeRequest(4, 6, 8, kReal, "6"), 18).value();
  const Status checked = table.CheckAllLines([](int count, const std::function<void(int)>& work) {
    for (int n = 0; n < count; ++n) work(n);
  });
  EXPECT_TRUE(checked.ok()) << checked;
  Ticks before = 0;
  for (int failures = 0; failures <= 18; ++failures) {
    const TableLine line = table.Line(failures);
    EXPECT_GE(line.period, before) << failures;
    EXPECT_GE(line.period, line.lower_bound) << failures;
    before = line.period;
  }
}

// The paper's largest job, 2,048 workers and up to 512 of them dead: lines drawn at random expand
// to whole plans that the checker of plan files accepts, no slower than the line says.
TEST(PlanTableTest, LinesOfThePapersLargestJobExpand) {
  constexpr std::uint64_t kSeed = 2048;
  constexpr int kLines = 50;
  const PlanTable table = PlanTable::Make(MakeRequest(32, 64, 64, kReal, "64"), 512).value();
  EXPECT_EQ(table.entries().size(), 9U);
  Prng prng(kSeed);
  for (int n = 0; n < kLines; ++n) {
    const auto failures = static_cast<int>(prng.Below(513));
    const TableLine line = table.Line(failures);
    const Plan plan = table.ExpandCount(failures).value();
    ASSERT_TRUE(Validate(plan).ok()) << failures << " failures: " << Validate(plan);
    EXPECT_EQ(plan.failed.size(), static_cast<std::size_t>(failures));
    EXPECT_LE(ComputeFigures(plan)->period, line.period) << failures << " failures";
    EXPECT_GE(line.period, line.lower_bound) << failures << " failures";
  }
}

TEST(PlanTableTest, SurvivesItsFileBitForBit) {
  const PlanTable table = PlanTable::Make(MakeRequest(4, 5, 8, kReal, "5"), 12).value();
  const StatusOr<PlanTable> read = PlanTable::FromJson(table.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToJson(), table.ToJson());
  EXPECT_EQ(read->JobHash(), table.JobHash());
  for (const int failures : {0, 1, 7, 12}) {
    EXPECT_EQ(*read->ExpandCount(failures), *table.ExpandCount(failures)) << failures;
  }
}

// Any failure set maps to a plan that is legal and no slower than the line of its worst stage.
TEST(PlanTableTest, AnyFailureSetExpands) {
  constexpr std::uint64_t kSeed = 77;
  Prng prng(kSeed);
  const PlanTable table = PlanTable::Make(MakeRequest(5, 4, 6, kReal, "8"), 16).value();
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<WorkerId> failed;
    int most = 0;
    for (int stage = 0; stage < 4; ++stage) {
      int here = 0;
      for (int k = 0; k < 5; ++k) {
        if (here == 4 || prng.Below(3) != 0) continue;
        failed.push_back(At(k, stage));
        ++here;
      }
      most = std::max(most, here);
    }
    const StatusOr<Plan> plan = table.Expand(failed);
    ASSERT_TRUE(plan.ok()) << plan.status() << " seed " << kSeed << " trial " << trial;
    const CheckReport report = CheckPlan(*plan);
    EXPECT_TRUE(report.ok()) << report.errors.front() << " trial " << trial;
    EXPECT_LE(*plan->period, table.Find(most)->period) << "trial " << trial;
  }
}

TEST(PlanTableTest, RefusesWhatItWasNotMadeFor) {
  const PlanTable table = PlanTable::Make(MakeRequest(4, 3, 4), 3).value();
  EXPECT_EQ(table.Expand({At(0, 0), At(1, 0)}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(table.ExpandCount(4).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(PlanTable::Make(MakeRequest(4, 3, 4), 10).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(PlanTableTest, RefusesDamagedFiles) {
  const std::string json = PlanTable::Make(MakeRequest(3, 2, 4), 2)->ToJson();
  const auto error = [](const std::string& text) {
    return std::string(PlanTable::FromJson(text).status().message());
  };
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = json;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_NE(error(json.substr(0, json.size() / 2)), "");
  EXPECT_THAT(error(with("plan-table/1", "plan-table/2")), HasSubstr("recycle-plan-table/1"));
  EXPECT_THAT(error(with("\"micro_batches\": 4", "\"micro_batches\": 5")), HasSubstr("job_hash"));
  EXPECT_THAT(error(with("\"surrogate\"", "\"surogate\"")), HasSubstr("surrogate"));
  EXPECT_THAT(error(with("\"period_ticks\":", "\"period_ticks\":1")), HasSubstr("ticks"));
}

}  // namespace
}  // namespace recycle
