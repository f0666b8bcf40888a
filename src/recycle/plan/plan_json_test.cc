#include "recycle/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "recycle/plan/test_plans.h"

namespace recycle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string ErrorOf(const std::string& json) {
  const StatusOr<Plan> plan = PlanFromJson(json);
  if (plan.ok()) return "no error";
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument) << plan.status();
  return std::string(plan.status().message());
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

// A plan with something under every key.
Plan FullPlan() {
  Plan plan = OneFOneBPlan(2, 2, 2);
  plan.slow = {{{PipelineId(1), StageId(0)}, 1.1}};
  plan.initial = {{{PipelineId(0), StageId(0)}, 7, {plan.workers[0].actions[0]}}};
  plan.committed = {StageId(1)};
  plan.copies = {{{PipelineId(1), StageId(1)}, {PipelineId(0), StageId(0)}}};
  plan.costs.send_backward = {Ticks{50'001}};
  plan.costs.stages[0].capacity_bytes = 0.1;
  plan.costs.stages[1].state_bytes = 1e300;
  plan.makespan = Ticks{29'000'001};
  plan.period = Ticks{1};
  plan.lower_bound = Ticks{0};
  plan.method = "by \"hand\"\n";
  return plan;
}

TEST(PlanJson, ReadsWhatItWroteBitForBit) {
  EXPECT_EQ(PlanFromJson(PlanToJson(FullPlan())).value(), FullPlan());
  Prng prng(11);
  for (int i = 0; i < 200; ++i) {
    const Plan plan = RandomPlan(prng, {.virtual_stages = i % 2 == 1});
    const StatusOr<Plan> read = PlanFromJson(PlanToJson(plan));
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << PlanToJson(plan);
    ASSERT_EQ(*read, plan) << "plan " << i << " of seed 11";
  }
}

TEST(PlanJson, HasOneLinePerWorkerAndExactDecimals) {
  const std::string text = PlanToJson(FullPlan());
  EXPECT_THAT(text, HasSubstr("\n  {\"worker\": [0, 1], \"actions\": [\"1F0.0\", \"1B0.0\", "));
  EXPECT_THAT(text, HasSubstr("\"makespan\": 29.000001,"));
  EXPECT_THAT(text, HasSubstr("\"send_forward\": 0, \"send_backward\": 0.050001,"));
}

TEST(PlanJson, FillsInDefaultsAndStepActions) {
  const StatusOr<Plan> plan = PlanFromJson(R"({"format": "recycle-plan/1",
    "parallel": {"data": 1, "pipeline": 1}, "micro_batches": 1, "failed": [],
    "costs": {"stages": [{"forward": 1, "backward_input": 1, "backward_weight": 0.5, "activation_bytes": 3}]},
    "workers": [{"worker": [0, 0], "actions": ["0F0.0", "0B0.0"]}]})");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ToString(plan->workers[0].actions), "0F0.0 0VALIDATE 0B0.0 0REDUCE_GRAD 0STEP");
  EXPECT_EQ(plan->costs.stages[0].deferred_bytes, 3);
  EXPECT_EQ(plan->costs.stages[0].backward_weight, kTicksPerUnit / 2);
  EXPECT_FALSE(plan->makespan.has_value());
}

TEST(PlanJson, StepActionsOfAWorkerWithSeveralStagesCannotBlockOneAnother) {
  Plan plan;
  plan.parallel = {1, 1, 1, 2, Placement::kInterleaved};
  plan.options.staggered = false;
  plan.workers = {{{}, {}}};
  AddStepActions(plan);
  EXPECT_EQ(ToString(plan.workers[0].actions),
            "0REDUCE_GRAD 1REDUCE_GRAD 0VALIDATE 1VALIDATE 0STEP 1STEP");
  const Plan once = plan;
  AddStepActions(plan);
  EXPECT_EQ(plan, once);
}

TEST(PlanJson, RefusalsNamePlaceRuleAndHint) {
  const std::string good = PlanToJson(FullPlan());
  EXPECT_THAT(ErrorOf(Replaced(good, "\"micro_batches\"", "\"micro_batch\"")),
              AllOf(HasSubstr("unknown key \"micro_batch\""), HasSubstr("\"micro_batches\"?")));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"tensor\"", "\"tensr\"")),
              AllOf(HasSubstr("of parallel"), HasSubstr("did you mean \"tensor\"?")));
  EXPECT_THAT(ErrorOf(Replaced(good, "recycle-plan/1", "recycle-plan/2")),
              AllOf(HasSubstr("reads up to \"recycle-plan/1\""), HasSubstr("update")));
  EXPECT_THAT(ErrorOf(Replaced(good, "recycle-plan/1", "recycle-table/1")), HasSubstr("must be"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"data\": 2", "\"data\": \"2\"")),
              AllOf(HasSubstr("parallel.data"), HasSubstr("whole number"), HasSubstr("not \"2\"")));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"data\": 2", "\"data\": 2.5")), HasSubstr("parallel.data"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"data\": 2", "\"data\": 0")), HasSubstr("data = 0"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"data\": 2", "\"data\": 2, \"data\": 2")),
              HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"forward\": 1", "\"forward\": -1")),
              HasSubstr("costs.stages[0].forward = -1"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"forward\": 1", "\"forward\": 1e300")),
              HasSubstr("larger unit"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"forward\": 1", "\"forward\": NaN")), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"deferred_bytes\": 1", "\"deferred_bytes\": 2")),
              HasSubstr("deferred_bytes 2 above activation_bytes 1"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"send_backward\": 0.050001", "\"send_backward\": [1, 2]")),
              HasSubstr("costs.send_backward: must be a list of 1 entries"));
  EXPECT_THAT(ErrorOf(Replaced(good, "\"0B0.0\"", "\"0X0.0\"")),
              AllOf(HasSubstr("workers[0].actions["), HasSubstr("'0X0.0'")));
  EXPECT_THAT(ErrorOf(Replaced(good, "[1, 0, 1.1]", "[1, 0, 0]")), HasSubstr("slow factor 0"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("JSON object"));
}

TEST(PlanJson, ATextCutOffAnywhereIsRefused) {
  const std::string good = PlanToJson(FullPlan());
  for (std::size_t length = 0; length + 2 < good.size(); ++length) {
    ASSERT_THAT(ErrorOf(good.substr(0, length)), HasSubstr("not JSON at byte")) << length;
  }
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() / 2)), HasSubstr("cut off"));
}

TEST(PlanJson, MutatedTextsNeverCrash) {
  const std::string good = PlanToJson(FullPlan());
  Prng prng(3);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (std::uint64_t change = 0; change <= prng.Below(3); ++change) {
      const char letters[] = "0123456789.-eE\"[]{},: FIWB";
      text[prng.Below(text.size())] = letters[prng.Below(sizeof(letters) - 1)];
    }
    const StatusOr<Plan> plan = PlanFromJson(text);
    if (!plan.ok()) continue;
    ++accepted;
    ASSERT_EQ(PlanFromJson(PlanToJson(*plan)).value(), *plan) << text;
  }
  EXPECT_GT(accepted, 0);
}

TEST(PlanJson, FilesAreReplacedAsAWholeAndErrorsNameThePath) {
  const std::string path = testing::TempDir() + "/plan_json_test.json";
  ASSERT_TRUE(WritePlanFile(FullPlan(), path).ok());
  ASSERT_TRUE(WritePlanFile(GPipePlan(1, 1, 1), path).ok());
  EXPECT_EQ(ReadPlanFile(path).value(), GPipePlan(1, 1, 1));
  std::filesystem::remove(path);
  EXPECT_EQ(ReadPlanFile(path).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadPlanFile(path).status().message()), HasSubstr(path));
  EXPECT_FALSE(WritePlanFile(FullPlan(), path + "/no/such/folder").ok());
}

}  // namespace
}  // namespace recycle
