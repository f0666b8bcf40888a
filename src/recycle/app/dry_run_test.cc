#include "recycle/app/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "recycle/app/job_conversion.h"
#include "recycle/app/memory_cap.h"
#include "recycle/base/prng.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/cost_options.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob =
    "model: {layers: 4, hidden: 64, heads: 4, sequence: 32}\n"
    "data: {text: corpus.txt, tokenizer: bytes, vocabulary: 256}\n"
    "parallel: {data: 3, pipeline: 2}\n"
    "batch: {micro_batch_size: 2, micro_batches: 4}\n"
    "train: {iterations: 5}\n";

JobConfig Job(const std::vector<std::string>& overrides = {}) {
  return *ParseJobConfig(kJob, "job.yaml", "/jobs", overrides);
}

TEST(JobConversionTest, TheRequestIsTheJob) {
  const StatusOr<PlanRequest> request =
      PlanRequestOf(Job({"resilience.snapshot_every=0"}), {}, 1e9);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->parallel, (Parallelism{.data = 3, .pipeline = 2}));
  EXPECT_EQ(request->micro_batches, 4);
  EXPECT_TRUE(request->options.staggered);
  for (const StageCosts& stage : request->costs.stages) {
    // memory_cap auto, of more memory than makes plans shorter: 4 PP micro-batches
    EXPECT_EQ(stage.capacity_bytes, 4 * 2 * stage.activation_bytes);
  }
}

// What `auto` leaves out of a large memory makes no plan longer: the same period as with no limit.
TEST(JobConversionTest, AutoHoldsAsManyMicroBatchesAsMakeAPlanShorter) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Prng prng(seed);
    PlanRequest request;
    request.parallel = {.data = 2 + static_cast<int>(prng.Below(3)),
                        .pipeline = 2 + static_cast<int>(prng.Below(6))};
    request.micro_batches = 16 << prng.Below(3);
    const UniformCosts costs{.forward = 1,
                             .backward_input = 0.8 + 0.6 * prng.Uniform(),
                             .backward_weight = 0.5 + 0.7 * prng.Uniform(),
                             .send = 2 * prng.Uniform() * prng.Uniform()};
    request.costs = *MakeUniformProfile(costs, request.parallel);
    if (prng.Below(2) == 1) {
      const auto stage =
          static_cast<int>(prng.Below(static_cast<std::uint64_t>(request.parallel.pipeline)));
      request.failed = {{PipelineId(1), StageId(stage)}};
    }
    const StatusOr<Plan> unlimited = MakePlan(request);
    ASSERT_TRUE(unlimited.ok()) << unlimited.status();
    ASSERT_TRUE(
        ApplyJobMemoryCap({MemoryCap::Kind::kAuto}, request.parallel, 1e9, {}, request.costs).ok());
    EXPECT_LT(request.costs.stages[0].capacity_bytes.value(), 1e9);
    const StatusOr<Plan> limited = MakePlan(request);
    ASSERT_TRUE(limited.ok()) << limited.status();
    EXPECT_LE(ToUnits(*limited->period), ToUnits(*unlimited->period) * 1.0005);
  }
}

// Activations may have what the dry run's other columns leave, to the byte.
TEST(JobConversionTest, AutoLeavesRoomForWhatTheDryRunCounts) {
  struct Case {
    double device_bytes = 0;
    std::vector<std::string> overrides;
  };
  for (const Case& tight :
       {Case{5e6, {"resilience.snapshot_every=0"}},
        Case{7e6,
             {"schedule.staggered=true", "train.reproducible=true", "resilience.snapshot_every=0"}},
        Case{11e6, {"checkpoint.every=2", "resilience.snapshot_every=3"}}}) {
    const JobConfig config = Job(tight.overrides);
    const StatusOr<PlanRequest> request = PlanRequestOf(config, {}, tight.device_bytes);
    ASSERT_TRUE(request.ok()) << request.status();
    const StatusOr<std::string> json = DryRunReport(config, *MakePlan(*request), /*json=*/true);
    ASSERT_TRUE(json.ok()) << json.status();
    const nlohmann::json report = nlohmann::json::parse(*json);
    for (std::size_t i = 0; i < request->costs.stages.size(); ++i) {
      double standing = 0;
      for (const nlohmann::json& worker : report.at("workers")) {
        if (worker.at("worker").get<std::string>().back() != '0' + static_cast<char>(i)) continue;
        standing = std::max(standing, worker.at("total_bytes").get<double>() -
                                          worker.at("activation_bytes").get<double>() -
                                          worker.at("log_bytes").get<double>());
      }
      EXPECT_DOUBLE_EQ(request->costs.stages[i].capacity_bytes.value(),
                       tight.device_bytes - standing);
    }
  }
}

TEST(JobConversionTest, AFixedMethodGivesWayToAdaptiveOnceAWorkerIsDead) {
  const JobConfig config = Job({"schedule.method=1f1b"});
  EXPECT_EQ(PlanRequestOf(config, {}, 1e9)->method, Method::kOneFOneB);
  const std::vector<WorkerId> failed = {{PipelineId(1), StageId(1)}};
  const StatusOr<PlanRequest> request = PlanRequestOf(config, {.failed = failed}, 1e9);
  EXPECT_EQ(request->method, Method::kAdaptive);
  EXPECT_FALSE(request->options.staggered) << "as it began";
}

TEST(JobConversionTest, MemoryThatIsTooSmallIsRefused) {
  const StatusOr<PlanRequest> request = PlanRequestOf(Job(), {}, 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(request.status()));
  EXPECT_THAT(std::string(request.status().message()), HasSubstr("schedule.memory_cap"));
}

TEST(JobConversionTest, EveryLayerHasOneOwner) {
  for (int stages = 1; stages <= 4; ++stages) {
    const StatusOr<std::vector<LayerRange>> layers =
        LayersOf(Job({"parallel.pipeline=" + std::to_string(stages)}));
    ASSERT_TRUE(layers.ok()) << layers.status();
    int next = 0;
    for (const LayerRange& range : *layers) {
      EXPECT_EQ(range.begin, next);
      next = range.end;
    }
    EXPECT_EQ(next, 4 + 2);
  }
}

// The own sum has 8 bytes a number instead of 4; the reduced gradient has 4.
TEST(DryRunTest, ReproducibleSumsTakeFourBytesAParameterMore) {
  for (const bool reproducible : {false, true}) {
    const JobConfig config =
        Job({reproducible ? "train.reproducible=true" : "train.reproducible=false"});
    const StatusOr<std::string> json = DryRunReport(config, *FirstPlan(config), /*json=*/true);
    ASSERT_TRUE(json.ok()) << json.status();
    const nlohmann::json report = nlohmann::json::parse(*json);
    for (const nlohmann::json& worker : report.at("workers")) {
      const double parameters = worker.at("parameter_bytes").get<double>() / 4;
      EXPECT_EQ(worker.at("gradient_bytes"), parameters * (reproducible ? 12 : 8));
    }
  }
}

TEST(DryRunTest, ReportsMemoryOfEveryWorkerAndALegalPlan) {
  const JobConfig config = Job();
  const StatusOr<Plan> plan = FirstPlan(config);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const StatusOr<std::string> json = DryRunReport(config, *plan, /*json=*/true);
  ASSERT_TRUE(json.ok()) << json.status();
  const nlohmann::json report = nlohmann::json::parse(*json);
  ASSERT_EQ(report.at("workers").size(), 6u);
  // Four bytes of parameter, two moments of four bytes.
  double parameters = 0;
  for (const nlohmann::json& worker : report.at("workers")) {
    EXPECT_GT(worker.at("activation_bytes"), 0.0);
    EXPECT_GT(worker.at("state_bytes"), worker.at("parameter_bytes"));
    // Two stages: each sends its 4 micro-batches of 2 x 32 tokens x 64 floats to the other.
    EXPECT_EQ(worker.at("log_bytes"), 4.0 * 2 * 32 * 64 * 4);
    if (worker.at("worker").get<std::string>()[0] == '0') {
      parameters += worker.at("parameter_bytes").get<double>() / 4;
    }
  }
  const double blocks = 4 * (12 * 64 * 64 + 13 * 64);
  EXPECT_EQ(parameters, blocks + 2 * 256 * 64 + 32 * 64 + 2 * 64);
  const StatusOr<Plan> read = PlanFromJson(report.at("plan").dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(Validate(*read).ok());
  EXPECT_THAT(*DryRunReport(config, *plan, /*json=*/false), HasSubstr("2:1"));
}

TEST(DryRunTest, EveryMethodOfTheConfigStartsAJob) {
  const std::set<std::string> synchronous = {"gpipe", "1f1b", "naive"};
  for (const char* method : {"adaptive", "gpipe", "1f1b", "zb-h1", "zb-h2", "naive"}) {
    const StatusOr<Plan> plan = FirstPlan(Job({std::string("schedule.method=") + method}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(Validate(*plan).ok()) << method;
    EXPECT_EQ(plan->parallel.virtual_stages, 1);
    EXPECT_NE(plan->options.staggered, synchronous.contains(method)) << method;
  }
}

class PlanFileTest : public ::testing::Test {
 protected:
  // FirstPlan of the job with a file made from the job's own plan after `change`.
  StatusOr<Plan> FirstPlanOf(const std::function<void(Plan&)>& change) {
    Plan plan = *FirstPlan(Job());
    change(plan);
    const std::string path = ::testing::TempDir() + "/dry_run_test_plan.json";
    EXPECT_TRUE(WritePlanFile(plan, path).ok());
    return FirstPlan(Job({"schedule.plan=" + path}));
  }
};

TEST_F(PlanFileTest, IsTakenAsItIs) {
  const StatusOr<Plan> plan = FirstPlanOf([](Plan& plan) { plan.method = "by hand"; });
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->method, "by hand");
  EXPECT_EQ(plan->workers, FirstPlan(Job())->workers);
}

TEST_F(PlanFileTest, ThatDoesNotFitTheJobIsRefused) {
  const auto refused = [this](const std::function<void(Plan&)>& change) {
    const StatusOr<Plan> plan = FirstPlanOf(change);
    EXPECT_EQ(plan.ok(), false);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(refused([](Plan& plan) { plan.micro_batches = 5; }), HasSubstr("micro_batches is 5"));
  EXPECT_THAT(refused([](Plan& plan) { plan.parallel.data = 2; }),
              HasSubstr("pipelines are 0 to 1"));
  EXPECT_THAT(refused([](Plan& plan) { plan.options.staggered = false; }),
              HasSubstr("set schedule.staggered=false, or make the plan without --no-stagger"));
  EXPECT_THAT(refused([](Plan& plan) {
                std::vector<Action>& actions = plan.workers[0].actions;
                std::reverse(actions.begin(), actions.end());
              }),
              HasSubstr("is not a legal plan"));
}

}  // namespace
}  // namespace recycle
