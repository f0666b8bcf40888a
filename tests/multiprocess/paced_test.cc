// Paced jobs: the real program, and times that are its plan's. What can only be injected within a
// process (a delay, a message that is lost) is in executor/paced_test.cc.
#include "paced.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "recycle/plan/plan_json.h"
#include "recycle/planner/planner.h"

namespace recycle::testing {
namespace {

constexpr double kTimeScale = 0.1;
// By the workers' time only rounding is left, of durations and of what is written.
constexpr double kTolerance = 1e-5;
constexpr std::chrono::seconds kLimit{100};

constexpr Ticks kForward = 100 * kTicksPerUnit;
constexpr Ticks kBackwardInput = 105 * kTicksPerUnit;
constexpr Ticks kBackwardWeight = 85 * kTicksPerUnit;

CostProfile Costs(int stages = 4, Ticks backward_weight = kBackwardWeight) {
  return ProfileOf(stages,
                   {.forward = kForward,
                    .backward_input = kBackwardInput,
                    .backward_weight = backward_weight,
                    .optimizer = 20 * kTicksPerUnit,
                    .all_reduce = 30 * kTicksPerUnit},
                   /*send_ms=*/5);
}

// The paper's running example.
JobOptions Example(int iterations, bool staggered, std::vector<std::string> faults) {
  return {.data = 3,
          .pipeline = 4,
          .micro_batches = 6,
          .iterations = iterations,
          .layers = 4,
          .staggered = staggered,
          .clip = 1000,
          .inject = std::move(faults)};
}

// `first` .. the last iteration but one take `planned_ms`. (The last step of a staggered job waits
// for all stages.)
void ExpectPlanned(const Job& job, int first, double planned_ms) {
  const std::map<int, double> times = IterationMs(job);
  ASSERT_GT(std::ssize(times), first);
  for (const auto& [iteration, ms] : times) {
    if (iteration < first || iteration == std::ssize(times)) continue;
    EXPECT_NEAR(ms, planned_ms, kTolerance * planned_ms) << "iteration " << iteration;
  }
}

TEST(PacedTest, AFaultFreeJobRunsByItsPlanAndLearnsAsEver) {
  Job job(Example(5, /*staggered=*/false, {}));
  Pace(job, Costs(), kTimeScale);
  job.Start();
  ASSERT_EQ(job.Wait(kLimit), 0) << job.Output();
  ExpectPlanned(job, 2, PlannedMs(job, 1));
  int forwards = 0;
  for (const nlohmann::json& event : job.TraceEvents()) {
    if (event.at("cat") != "F") continue;
    ++forwards;
    EXPECT_NEAR(event.at("dur").get<double>(), 1e3 * ToUnits(kForward), 1.0) << event;
  }
  EXPECT_EQ(forwards, 5 * 3 * 4 * 6);
  Job unpaced(Example(5, /*staggered=*/false, {}));
  ASSERT_EQ(unpaced.Run(), 0) << unpaced.Output();
  EXPECT_EQ(Differs(job.Losses(), unpaced.Losses(), 1e-6), "");
}

// Long enough for steps that nobody waits for; the adapted plan is the second generation's.
TEST(PacedTest, AfterAFailureItRunsByTheAdaptedPlan) {
  Job job(Example(17, /*staggered=*/true, {"kill 1:2 at F of iteration 2"}));
  Pace(job, Costs(), kTimeScale);
  job.Start();
  ASSERT_EQ(job.Wait(kLimit), 0) << job.Output();
  ASSERT_EQ(job.Events("failure_detected").size(), 1U);
  ExpectPlanned(job, 14, PlannedMs(job, 2));
}

TEST(PacedTest, AWorkerThatIsStoppedForAMomentChangesNothing) {
  Job job(Example(6, /*staggered=*/false, {"stop 1:2 at F of iteration 3 for 0.05s"}));
  Pace(job, Costs(), kTimeScale);
  job.Start();
  ASSERT_EQ(job.Wait(kLimit), 0) << job.Output();
  ASSERT_EQ(job.Events("fault_injected").size(), 1U);
  EXPECT_EQ(job.Events("generation").size(), 1U);
  ExpectPlanned(job, 2, PlannedMs(job, 1));
}

// The plan file was made for W twice as long as they are: measured, judged, and not run any more.
TEST(PacedTest, APlanForWrongCostsGivesWayToAFasterOne) {
  JobOptions options{.data = 2,
                     .pipeline = 2,
                     .micro_batches = 4,
                     .iterations = 45,
                     .layers = 2,
                     .staggered = true,
                     .clip = 1000};
  Job reference(options);
  ASSERT_EQ(reference.Run(), 0) << reference.Output();
  options.measure = true;
  Job job(options);
  PlanRequest request;
  request.parallel = {.data = 2, .pipeline = 2};
  request.micro_batches = 4;
  request.costs = Costs(2, 2 * kBackwardWeight);
  const std::string plan = (job.folder() / "plan.json").string();
  std::ofstream(plan) << PlanToJson(MakePlan(request).value());
  job.AddArguments({"--plan", plan});
  Pace(job, Costs(2, kBackwardWeight), kTimeScale);
  job.Start();
  ASSERT_EQ(job.Wait(kLimit), 0) << job.Output();
  const auto events = job.Events("costs_measured");
  ASSERT_EQ(events.size(), 1U) << job.Output();
  EXPECT_EQ(events[0].at("replanned"), true) << events[0];
  EXPECT_NEAR(events[0].at("deviation").get<double>(), 0.5, 1e-3);
  const auto generations = job.Events("generation");
  ASSERT_EQ(generations.size(), 2U);
  EXPECT_NE(generations[1].at("reason").get<std::string>().find("the plan's costs were off by 50%"),
            std::string::npos);
  EXPECT_NE(job.Output().find("W 1.70 F; measured: I 1.05 F, W 0.85 F"), std::string::npos)
      << job.Output();
  EXPECT_LT(PlannedMs(job, 2), events[0].at("period_before").get<double>());
  ExpectPlanned(job, 25, PlannedMs(job, 2));
  EXPECT_EQ(Differs(job.Losses(), reference.Losses(), 1e-5), "");
}

TEST(PacedTest, AProfileThatDoesNotFitIsRefused) {
  for (const auto& [profile, said] :
       {std::pair(ProfileOf(3, {.forward = kForward}, 0), "parallel.pipeline is 4"),
        std::pair(
            [] {
              CostProfile costs = Costs();
              costs.unit = "slot";
              return costs;
            }(),
            "its unit is \"slot\", but it must be ms")}) {
    Job job(Example(2, /*staggered=*/false, {}));
    Pace(job, profile, kTimeScale);
    EXPECT_EQ(job.Run(), 2);
    EXPECT_NE(job.Output().find(said), std::string::npos) << job.Output();
  }
  Job job(Example(2, /*staggered=*/false, {}));
  Pace(job, Costs(), kTimeScale);
  std::filesystem::remove(job.folder() / "profile.json");
  EXPECT_EQ(job.Run(), 2);
  EXPECT_NE(job.Output().find("device.profile: "), std::string::npos) << job.Output();
}

}  // namespace
}  // namespace recycle::testing
