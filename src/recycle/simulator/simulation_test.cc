// Policies against numbers worked out by hand, against theory, and against their own rules.
#include "recycle/simulator/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "recycle/simulator/bamboo_policy.h"
#include "recycle/simulator/memory_model.h"
#include "recycle/simulator/oobleck_policy.h"
#include "recycle/simulator/oobleck_published_policy.h"
#include "recycle/simulator/random_failures.h"
#include "recycle/simulator/simulation_testing.h"

namespace recycle {
namespace {

using testing::ClosedFormPlanner;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallJob;
using testing::TimelineOf;

// Round numbers.
PolicyConstants RoundConstants() {
  PolicyConstants constants;
  constants.model_row = "gpt3-6.7b";
  for (RestartConstants* restart : {&constants.restart, &constants.spares, &constants.varuna}) {
    *restart = {.detect_s = 2, .restart_s = 100, .checkpoint_s = 10, .interval_s = 50};
  }
  constants.bamboo_reconfigure_s = 20;
  return constants;
}

class SimulationTest : public ::testing::Test {
 protected:
  PolicyResult Run(const SimulatedJob& job, const JobTimeline& timeline, std::string_view policy,
                   const PolicyConstants& constants = RoundConstants(), bool moves = true) {
    ClosedFormPlanner planner(job);
    intervals_.clear();
    failed_per_stage_.clear();
    const SimulationRequest request{
        .job = job, .constants = constants, .planner = planner, .move_roles = moves};
    const StatusOr<PolicyResult> result =
        Simulate(request, timeline, policy, [&](const Interval& interval) {
          intervals_.push_back(interval);
          failed_per_stage_.push_back(interval.live->failed_per_stage());
          return OkStatus();
        });
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(PolicyResult{});
  }

  std::vector<Interval> intervals_;
  std::vector<std::vector<int>> failed_per_stage_;  // by interval
};

TEST_F(SimulationTest, AFaultFreeHourIsThirtySixHundredPeriods) {
  const SimulatedJob job = SmallJob(2, 4, 6);  // 1F1B: 9 s
  const PolicyResult result = Run(job, TimelineOf(job, {}, 3600), "fault-free");
  EXPECT_NEAR(result.samples, 400 * job.samples_per_batch(), 1e-6);
  EXPECT_NEAR(result.goodput, 1, 1e-12);
}

TEST_F(SimulationTest, WithoutFailuresEveryPolicyIsItself) {
  const SimulatedJob job = SmallJob(3, 4, 8);
  const JobTimeline timeline = TimelineOf(job, {}, 12345);
  PolicyConstants constants;
  constants.model_row = "gpt3-6.7b";
  for (const std::string_view policy : PolicyNames()) {
    const PolicyResult result = Run(job, timeline, policy, constants);
    EXPECT_NEAR(result.relative_to_own, 1, 1e-12) << policy;
    EXPECT_EQ(result.ettr, 1) << policy;
    EXPECT_EQ(result.recovery_hours, 0) << policy;
    EXPECT_EQ(result.lost_samples, 0) << policy;
  }
  for (const char* policy :
       {"fault-free", "fault-scaled", "restart", "elastic", "varuna", "oobleck-published"}) {
    EXPECT_NEAR(Run(job, timeline, policy, constants).goodput, 1, 1e-12) << policy;
  }
  EXPECT_NEAR(Run(job, timeline, "recycle", constants).goodput, 11.0 / 8, 1e-12);
  EXPECT_NEAR(Run(job, timeline, "bamboo", constants).goodput, 0.72, 1e-12);
  EXPECT_NEAR(Run(job, timeline, "spares", constants).goodput, 11.0 / 15, 1e-12);  // 2 x 12
}

// 2 x 2 workers, M = 2: worker 1:1 dies at 31 s, its node is back at 531 s, the end is at 1031 s.
TEST_F(SimulationTest, OneFailureAndItsRepairByHand) {
  const SimulatedJob job = SmallJob(2, 2, 2);
  const JobTimeline timeline = TimelineOf(job, {{31, 3, false}, {531, 3, true}}, 1031);
  const std::map<std::string, double> batches = {
      {"fault-free", 1031 / 3.0},
      {"fault-scaled", 31 / 3.0 + 500 * 0.75 / 3 + 500 / 3.0},
      // T(0) = 2 s, T(1) = 4 s. Half an iteration is redone by the one peer: 1 s at 1/2. The copy
      // takes a second.
      {"recycle", 31 / 2.0 - 0.5 + (532 - 33.25) / 4 + 499 / 2.0},
      {"recycle-rerun", 15 + (532 - 33.25) / 4 + 499 / 2.0},
      // A third of an iteration is lost; half the batch until the pipeline is complete.
      {"elastic", 10 + (531 - 43) / 3.0 / 2 + (1031 - 541) / 3.0},
      // No checkpoint yet. One pipeline: 5 s, 50 of 60 s are work.
      {"restart", (531 - 133) / 5.0 * 5 / 6 + (1031 - 641) / 3.0 * 5 / 6},
      {"varuna", (531 - 133) / 5.0 * 5 / 6 + (1031 - 641) / 3.0 * 5 / 6},
      {"spares", (1031 - 133) / 5.0 * 5 / 6},
      {"bamboo", 0.72 * (31 / 3.0 + (531 - 53) / 5.0 + (1031 - 551) / 3.0)},
      // Three workers in one pipeline of 4 layers: (4 + 2) * 1 s.
      {"oobleck", 10 + (531 - 43) / 6.0 + (1031 - 541) / 3.0},
  };
  for (const auto& [policy, expected] : batches) {
    const PolicyResult result = Run(job, timeline, policy);
    EXPECT_NEAR(result.samples / job.samples_per_batch(), expected, 1e-9) << policy;
    double recomputed = 0;
    double now_s = 0;
    for (const Interval& interval : intervals_) {
      EXPECT_EQ(interval.from_s, now_s) << policy;
      now_s = interval.to_s;
      recomputed += interval.rate * (interval.to_s - interval.from_s - interval.stall_s) *
                        job.samples_per_batch() -
                    interval.lost_samples;
    }
    EXPECT_EQ(now_s, 1031) << policy;
    EXPECT_NEAR(recomputed, result.samples, 1e-9 * result.samples) << policy;
  }
  const PolicyResult elastic = Run(job, timeline, "elastic");
  EXPECT_NEAR(elastic.recovery_hours, 22 / 3600.0, 1e-12);
  EXPECT_NEAR(elastic.lost_work_hours, 1 / 3600.0, 1e-12);
  EXPECT_NEAR(elastic.ettr, 1 - 23 / 1031.0, 1e-12);
}

TEST_F(SimulationTest, StallsNeverAddUp) {
  const SimulatedJob job = SmallJob(4, 2, 2);
  const JobTimeline timeline = TimelineOf(job, {{60, 0, false}, {65, 1, false}}, 1000);
  EXPECT_NEAR(Run(job, timeline, "restart").recovery_hours, (5 + 102) / 3600.0, 1e-12);
  EXPECT_NEAR(Run(job, timeline, "oobleck").recovery_hours, (5 + 12) / 3600.0, 1e-12);
}

TEST_F(SimulationTest, RolesMoveFromStagesThatCanSpareAWorker) {
  const SimulatedJob job = SmallJob(4, 2, 6);  // T(0) 6, T(1) 8, T(2) 12 s
  const JobTimeline timeline = TimelineOf(job, {{100, 0, false}, {200, 2, false}}, 1000);
  Run(job, timeline, "recycle", RoundConstants(), /*moves=*/false);
  EXPECT_THAT(failed_per_stage_.back(), ElementsAre(2, 0));
  EXPECT_EQ(intervals_.back().period_s, 12);
  const PolicyResult moved = Run(job, timeline, "recycle");
  EXPECT_THAT(failed_per_stage_.back(), ElementsAre(1, 1));
  EXPECT_EQ(intervals_.back().period_s, 8);
  // Place 0:0 has been dead long enough when 1:0 dies; the copy takes a second more.
  EXPECT_EQ(intervals_.back().from_s, 201);
  // The mean repair is what a move must pay within.
  JobTimeline hasty = timeline;
  hasty.mean_repair_s = 0.5;
  EXPECT_LT(Run(job, hasty, "recycle").samples, moved.samples);
}

TEST_F(SimulationTest, AnEmptyStageRestartsFromACheckpointAndWaitsWhenItMust) {
  const SimulatedJob job = SmallJob(2, 2, 2);
  // Stage 0 dies out; a worker of stage 1 takes it over; then only one worker is left.
  const JobTimeline timeline =
      TimelineOf(job, {{100, 0, false}, {160, 2, false}, {400, 3, false}, {500, 0, true}}, 1000);
  const PolicyResult result = Run(job, timeline, "recycle", RoundConstants(), /*moves=*/false);
  std::vector<double> periods;
  for (const Interval& interval : intervals_) periods.push_back(interval.period_s);
  EXPECT_THAT(periods, ElementsAre(2, 4, 4, 0, 4));
  EXPECT_EQ(intervals_[3].stall_s, 100);  // all of it: nobody can run
  EXPECT_EQ(intervals_[4].stall_s, 100);  // a restart
  // Checkpoints are free and every 50 s: at 400 s the last one is that of 362 s (100 s after the
  // restart at 262 s).
  EXPECT_NEAR(intervals_[3].lost_samples, (400 - 362) / 4.0 * job.samples_per_batch(), 1e-9);
  EXPECT_GT(result.goodput, 0);
}

TEST_F(SimulationTest, BambooLosesWorkWhenNeighboursDieTogether) {
  const SimulatedJob job = SmallJob(3, 4, 4);
  const auto lost = [&](int first, int second, double apart_s) {
    const JobTimeline timeline =
        TimelineOf(job, {{130, first, false}, {130 + apart_s, second, false}}, 1000);
    return Run(job, timeline, "bamboo").lost_samples > 0;
  };
  EXPECT_TRUE(lost(0, 1, 5));
  EXPECT_TRUE(lost(3, 0, 5));    // the ring of a pipeline
  EXPECT_FALSE(lost(0, 2, 5));   // not next to each other
  EXPECT_FALSE(lost(3, 4, 5));   // not in one pipeline
  EXPECT_FALSE(lost(0, 1, 25));  // repaired in between
  SimulatedJob too_big = job;
  too_big.bamboo_fits = false;
  const PolicyResult none = Run(too_big, TimelineOf(job, {}, 1000), "bamboo");
  EXPECT_TRUE(none.out_of_memory);
  EXPECT_EQ(none.goodput, 0);
}

TEST_F(SimulationTest, NodesOfSeveralWorkersFailTogether) {
  SimulatedJob job = SmallJob(2, 4, 4);
  job.gpus_per_node = 2;  // half a pipeline
  Run(job, TimelineOf(job, {{100, 3, false}, {900, 3, true}}, 1000), "recycle");
  EXPECT_THAT(failed_per_stage_[1], ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(failed_per_stage_.back(), ElementsAre(0, 0, 0, 0));
}

// --- theory --------------------------------------------------------------------------------------

// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (2006): the
// exact expected run time with exponential failures, also during restarts. The MTBF is that of the
// failures drawn: the nominal one is off by their own 0.5%, which long intervals amplify.
TEST_F(SimulationTest, CheckpointAndRestartIsDalysExactForm) {
  struct Case {
    double mtbf_s, restart_s, checkpoint_s, interval_s;
  };
  for (const Case& c : {Case{1800, 300, 30, 330}, Case{5000, 60, 20, 450}, Case{900, 20, 5, 900}}) {
    const SimulatedJob job = SmallJob(10, 10, 4);
    PolicyConstants constants;
    constants.restart = {.detect_s = 0,
                         .restart_s = c.restart_s,
                         .checkpoint_s = c.checkpoint_s,
                         .interval_s = c.interval_s};
    const double hours_s = 40'000 * c.mtbf_s;
    const StatusOr<FailureTrace> trace =
        DrawFailures({.num_nodes = 100, .mtbf_s = 100 * c.mtbf_s, .seed = 11}, hours_s);
    ASSERT_TRUE(trace.ok());
    const StatusOr<JobTimeline> timeline = MakeJobTimeline(*trace, {.num_blocks = 100});
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const double mtbf_s = timeline->mtbf_s;
    const double expected = c.interval_s / (mtbf_s * std::exp(c.restart_s / mtbf_s) *
                                            std::expm1((c.interval_s + c.checkpoint_s) / mtbf_s));
    EXPECT_NEAR(Run(job, *timeline, "restart", constants).goodput / expected, 1, 0.005)
        << "MTBF " << c.mtbf_s << " s, seed 11, " << timeline->failures << " failures";
  }
}

TEST_F(SimulationTest, FaultScaledIsTheLiveFraction) {
  const SimulatedJob job = SmallJob(20, 10, 4);
  const StatusOr<FailureTrace> trace =
      DrawFailures({.num_nodes = 200, .mtbf_s = 1000, .mttr_s = 100, .seed = 5}, 550'000);
  ASSERT_TRUE(trace.ok());
  const StatusOr<JobTimeline> timeline = MakeJobTimeline(*trace, {.num_blocks = 200});
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_GT(timeline->failures, 98'000);
  EXPECT_NEAR(Run(job, *timeline, "fault-scaled").goodput, 1000.0 / 1100, 0.005 * 1000 / 1100)
      << "seed 5";
}

TEST_F(SimulationTest, RandomLivesKeepTheBooks) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedJob job = SmallJob(4, 4, 8);
    job.gpus_per_node = seed % 2 == 0 ? 2 : 1;
    const StatusOr<FailureTrace> trace = DrawFailures({.num_nodes = job.num_blocks() + 1,
                                                       .mtbf_s = 20'000,
                                                       .mttr_s = 20'000,
                                                       .correlated = 0.2,
                                                       .seed = seed},
                                                      100'000);
    ASSERT_TRUE(trace.ok());
    const StatusOr<JobTimeline> timeline =
        MakeJobTimeline(*trace, {.num_blocks = job.num_blocks()});
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    for (const std::string_view policy : PolicyNames()) {
      const PolicyResult result = Run(job, *timeline, policy);
      double samples = 0;
      double stalled_s = 0;
      for (const Interval& interval : intervals_) {
        const double run_s = interval.to_s - interval.from_s - interval.stall_s;
        EXPECT_GE(run_s, -1e-9) << policy << " seed " << seed;
        samples += interval.rate * run_s * job.samples_per_batch() - interval.lost_samples;
        EXPECT_GE(samples, -1e-6) << policy << " lost more than it had, seed " << seed;
        stalled_s += interval.stall_s;
      }
      EXPECT_NEAR(samples, result.samples, 1e-6) << policy << " seed " << seed;
      EXPECT_NEAR(stalled_s / 3600, result.recovery_hours, 1e-9) << policy << " seed " << seed;
      EXPECT_LE(result.relative_to_own, 1 + 1e-12) << policy << " seed " << seed;
      const PolicyResult again = Run(job, *timeline, policy);
      EXPECT_EQ(again.samples, result.samples) << policy << " seed " << seed;
    }
  }
}

// --- parts ---------------------------------------------------------------------------------------

TEST(OobleckTest, TemplatesAreTheBestOfAllSpreads) {
  // Against every way to spread N micro-batches over the pipelines.
  for (int live = 2; live <= 7; ++live) {
    constexpr int kStages = 2;
    constexpr int kLayers = 8;
    constexpr int kMicroBatches = 9;
    const int pipelines = live / kStages;
    std::vector<int> sizes(static_cast<std::size_t>(pipelines), live / pipelines);
    for (int i = 0; i < live % pipelines; ++i) ++sizes[static_cast<std::size_t>(i)];
    std::function<double(std::size_t, int, double)> best = [&](std::size_t p, int left,
                                                               double worst) {
      if (p == sizes.size()) return left == 0 ? worst : 1e9;
      double least = 1e9;
      for (int nb = 0; nb <= left; ++nb) {
        const int stage_layers = (kLayers + sizes[p] - 1) / sizes[p];
        const double stage_s = stage_layers;
        const double own = nb == 0 ? 0 : (nb + sizes[p] - 1) * stage_s;
        least = std::min(least, best(p + 1, left - nb, std::max(worst, own)));
      }
      return least;
    };
    EXPECT_DOUBLE_EQ(TemplateIterationSeconds(live, kStages, kLayers, 1, kMicroBatches),
                     best(0, kMicroBatches, 0))
        << live;
  }
  EXPECT_TRUE(std::isinf(TemplateIterationSeconds(1, 2, 8, 1, 9)));
}

TEST(OobleckTest, ThePublishedCurveIsLinearBetweenPoints) {
  const std::vector<double>& curve = *PublishedOobleckCurve("gpt3-medium");
  EXPECT_DOUBLE_EQ(PublishedShare(curve, 1), 1);
  EXPECT_NEAR(PublishedShare(curve, 0.5), 19.103 / 38.468, 1e-12);
  EXPECT_NEAR(PublishedShare(curve, 29.5 / 30), (38.468 + 37.186) / 2 / 38.468, 1e-12);
  EXPECT_EQ(PublishedShare(curve, 14.9 / 30), 0);
}

TEST(ConstantsTest, AreSetByNameAndFollowTheModel) {
  SimulatedJob job = SmallJob(2, 2, 2);
  job.parameters = 3.33e9;
  EXPECT_EQ(ConstantsFor(job).model_row, "gpt3-2.7b");
  job.parameters = 400e9;
  EXPECT_EQ(ConstantsFor(job).model_row, "gpt3-6.7b");
  job.model = "gpt2";
  PolicyConstants constants = ConstantsFor(job);
  EXPECT_EQ(constants.bamboo_reconfigure_s, 80);
  ASSERT_TRUE(SetConstant("recycle.detect_s=0.5", constants).ok());
  EXPECT_EQ(constants.recycle_detect_s, 0.5);
  EXPECT_EQ(constants.oobleck_detect_s, 2);
  ASSERT_TRUE(SetConstant("detect_s=3", constants).ok());
  for (const ConstantInfo& info : ConstantTable()) {
    if (!info.name.ends_with(".detect_s")) continue;
    EXPECT_EQ(ConstantValue(constants, info.name), 3);
  }
  const auto refusal = [&](std::string_view text) {
    return std::string(SetConstant(text, constants).message());
  };
  EXPECT_THAT(refusal("recycle.detct_s=1"), HasSubstr("recycle.detect_s"));
  EXPECT_THAT(refusal("recycle.detect_s=-1"), HasSubstr("0 or more"));
  EXPECT_THAT(refusal("recycle.detect_s"), HasSubstr("NAME=VALUE"));
}

// The layouts of the paper's Table 1 at sequence 1,024 on 80 GB.
TEST(MemoryModelTest, BambooFitsMediumAndNotTheLargest) {
  const auto gigabytes = [](std::string_view name, int pp, int micro_batch_size) {
    const ModelLayout layout{.parallel = {.data = 1, .pipeline = pp},
                             .micro_batch_size = micro_batch_size,
                             .sequence = 1024};
    return BambooBytes(FindModel(name).value(), layout) / 1e9;
  };
  const double usable = UsableBytes(FindDevice("a100-80g").value()) / 1e9;
  EXPECT_NEAR(usable, 73.6, 1e-9);
  EXPECT_LT(gigabytes("gpt3-medium", 2, 16), usable);
  EXPECT_NEAR(gigabytes("gpt3-3.35b", 4, 4), 51, 0.5);
  EXPECT_NEAR(gigabytes("gpt3-6.7b", 8, 8), 98, 0.5);
  EXPECT_GT(gigabytes("gpt3-6.7b", 8, 8), usable);
}

}  // namespace
}  // namespace recycle
