#include "recycle/plan/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "recycle/plan/plan_json.h"
#include "recycle/plan/test_plans.h"

namespace recycle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CheckPlan, AcceptsRightFiguresAndAbsentOnes) {
  Plan plan = OneFOneBPlan(2, 4, 6);
  const CheckReport report = CheckPlan(plan);
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(report.figures->period, 27 * kTicksPerUnit);
  EXPECT_EQ(report.peak_memory, 4);
  plan.makespan = plan.period = plan.lower_bound = 27 * kTicksPerUnit + 20;  // within 1e-6
  EXPECT_TRUE(CheckPlan(plan).ok());
}

TEST(CheckPlan, AcceptsTheExampleOfTheFormatsDocument) {
  std::ifstream file("docs/PLAN_FORMAT.md");  // tests run at the root of the source
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string fence = "```json\n";
  const std::size_t begin = page.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = page.find("```", begin + fence.size());
  const StatusOr<Plan> plan =
      PlanFromJson(page.substr(begin + fence.size(), end - begin - fence.size()));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(CheckPlan(*plan).errors, IsEmpty());
  EXPECT_EQ(plan->workers, OneFOneBPlan(2, 2, 2).workers);
}

TEST(CheckPlan, NamesEveryFigureThatIsOff) {
  Plan plan = OneFOneBPlan(2, 4, 6);
  plan.makespan = 26 * kTicksPerUnit;
  plan.period = 27 * kTicksPerUnit + 40;
  plan.lower_bound = 28 * kTicksPerUnit;
  EXPECT_THAT(
      CheckPlan(plan).errors,
      ElementsAre("makespan is stated as 26 but is 27", "period is stated as 27.00004 but is 27",
                  "lower_bound is stated as 28, above the period 27"));
}

TEST(CheckPlan, GivesTheReasonsOfAnIllegalPlan) {
  Plan plan = OneFOneBPlan(1, 2, 2);
  plan.costs.stages[0].capacity_bytes = 1;
  const CheckReport memory = CheckPlan(plan);
  EXPECT_THAT(memory.errors, ElementsAre(HasSubstr("rule 4: worker 0:0: 0F0.1")));
  EXPECT_TRUE(memory.figures.has_value());
  plan.workers[0].actions.clear();
  const CheckReport empty = CheckPlan(plan);
  EXPECT_FALSE(empty.ok());
  EXPECT_FALSE(empty.figures.has_value());
}

}  // namespace
}  // namespace recycle
