#include "recycle/plan/pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "recycle/plan/test_plans.h"

namespace recycle {
namespace {

using testing::HasSubstr;
using testing::Not;

// 2 x 2, M 2, worker 1:1 dead: its micro-batches run on 0:1.
Plan ReroutedPlan() {
  Plan plan = OneFOneBPlan(2, 2, 2);
  plan.options.decoupled = true;
  plan.failed = {{PipelineId(1), StageId(1)}};
  plan.workers.pop_back();
  plan.workers[0].actions = ParseActions("0F0.0 0F0.1 0I0.0 0W0.0 0I0.1 0W0.1").value();
  plan.workers[1].actions =
      ParseActions("1F0.0 1I0.0 1F1.0 1I1.0 1F0.1 1I0.1 1F1.1 1I1.1 1W0.0 1W1.0 1W0.1 1W1.1")
          .value();
  plan.workers[2].actions = ParseActions("0F1.0 0F1.1 0I1.0 0W1.0 0B1.1").value();
  AddStepActions(plan);
  return plan;
}

TEST(PlanToGrid, ShowsTimeAcrossAndWorkersDown) {
  EXPECT_EQ(PlanToGrid(OneFOneBPlan(1, 2, 2)),
            "     0                        5\n"
            "0:0  F0.0 F0.1 .    .    B0.0===== .    B0.1=====\n"
            "0:1  .    F0.0 B0.0===== F0.1 B0.1=====\n");
}

TEST(PlanToGrid, MarksReroutedWorkAndDeadWorkers) {
  EXPECT_EQ(PlanToGrid(ReroutedPlan()),
            "     0                             5                             10\n"
            "0:0  F0.0  F0.1  .     I0.0  W0.0  .     .     I0.1  W0.1\n"
            "0:1  .     F0.0  I0.0  F1.0* I1.0* F0.1  I0.1  F1.1* I1.1* W0.0  W1.0* W0.1  W1.1*\n"
            "1:0  F1.0  F1.1  .     .     .     I1.0  W1.0  .     .     B1.1=======\n"
            "1:1  dead\n");
}

TEST(PlanToGrid, PointsAtTheErrorsOfAnIllegalPlan) {
  Plan plan = GPipePlan(1, 2, 2);
  plan.workers[0].actions = ParseActions("0F0.0 0B0.0 0F0.1 0B0.1").value();
  plan.workers[1].actions = ParseActions("1F0.1 1F0.0 1B0.0 1B0.1").value();
  AddStepActions(plan);
  EXPECT_EQ(
      PlanToGrid(plan, FindViolations(plan)),
      "     0                                                           5\n"
      "0:0  F0.0        B0.0        F0.1        B0.1        REDUCE_GRAD VALIDATE    STEP\n"
      "                 ^ <-- here: rule 3: deadlock of 2 worker(s): worker 0:0 stands at 0B0.0 "
      "and waits for worker 0:1\n"
      "0:1  F0.1        F0.0        B0.0        B0.1        REDUCE_GRAD VALIDATE    STEP\n"
      "     ^ <-- here: rule 3: deadlock of 2 worker(s): worker 0:1 stands at 1F0.1 and waits "
      "for worker 0:0\n"
      "(in order only: the plan cannot be timed)\n");
}

TEST(PlanToChromeTrace, IsValidJsonWithOneSlicePerAction) {
  Plan plan = ReroutedPlan();
  plan.costs.stages[1].optimizer = kTicksPerUnit / 2;
  const auto trace = nlohmann::json::parse(PlanToChromeTrace(plan).value());
  int slices = 0;
  int rerouted = 0;
  for (const auto& event : trace["traceEvents"]) {
    ASSERT_TRUE(event.contains("name") && event.contains("pid") && event.contains("tid")) << event;
    if (event["ph"] != "X") continue;
    ASSERT_GE(event["dur"].get<double>(), 0) << event;
    ++slices;
    if (!event.contains("args") || !event["args"]["rerouted"].get<bool>()) continue;
    ++rerouted;
    EXPECT_EQ(event["pid"], 0);
    EXPECT_EQ(event["tid"], 1);
  }
  EXPECT_EQ(slices, 6 + 12 + 5 + 2);  // and one step per stage
  EXPECT_EQ(rerouted, 6);
  const auto& second = trace["traceEvents"][6 + 1];
  EXPECT_EQ(second["name"], "0F0.1");
  EXPECT_EQ(second["ts"], 1000.0);  // one unit is a millisecond
}

TEST(PlanToHtml, IsSelfContainedAndColoursReroutedWork) {
  const Plan fault_free = OneFOneBPlan(2, 2, 2);
  const std::string page = PlanToHtml(ReroutedPlan(), &fault_free).value();
  EXPECT_THAT(page, HasSubstr("class=\"bar I r\""));
  EXPECT_THAT(page, HasSubstr("re-routed from pipeline 1"));
  EXPECT_LT(page.find("<h2>fault-free</h2>"), page.find("<h2>1 of 4 workers failed</h2>"));
  for (const char* foreign : {"http:", "https:", "src=", "<link", "@import", "url(/"}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
}

TEST(Pictures, OfAPlanWithoutTimesAreAnError) {
  Plan plan = GPipePlan(1, 2, 1);
  plan.workers[0].actions.clear();
  EXPECT_FALSE(PlanToHtml(plan).ok());
  EXPECT_FALSE(PlanToChromeTrace(plan).ok());
  EXPECT_THAT(PlanToGrid(plan), HasSubstr("cannot be timed"));
}

}  // namespace
}  // namespace recycle
