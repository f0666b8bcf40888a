#include "recycle/app/profile_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "recycle/app/profile_text.h"
#include "recycle/plan/costs_json.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;

WorkerId Worker(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

Action Of(ActionKind kind, WorkerId worker, int micro_batch = 0) {
  if (!HasMicroBatch(kind)) return {kind, worker.stage, {}};
  return {kind, worker.stage, {worker.pipeline, micro_batch}};
}

TEST(MeasureTest, MedianAndTheValueThat95PercentDoNotExceed) {
  EXPECT_EQ(MeasureOf({}).samples, 0);
  EXPECT_EQ(MeasureOf({3, 1, 2}).median, 2);
  EXPECT_EQ(MeasureOf({4, 1, 2, 3}).median, 2.5);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_EQ(MeasureOf(hundred).p95, 95);
  EXPECT_EQ(MeasureOf({7}).p95, 7);
  EXPECT_EQ(MeasureOf(hundred).samples, 100);
}

// Two pipelines of two stages, each iteration 100 ms long and alike, but the first, which takes
// ten times as long for everything.
class ProfileReportTest : public ::testing::Test {
 protected:
  static constexpr int kIterations = 4;

  ProfileReportTest() {
    for (int iteration = 1; iteration <= kIterations; ++iteration) {
      for (const int pipeline : {0, 1}) AddPipeline(iteration, pipeline);
    }
    for (const int stage : {0, 1}) {
      samples_.states.push_back({StageId(stage), 1000.0 * (stage + 1), 3000.0 * (stage + 1)});
    }
  }

  StatusOr<ProfileReport> Report(int skipped = 1) {
    return MakeProfileReport(samples_, /*num_stages=*/2, skipped);
  }

  ProfileSamples samples_;

 private:
  void AddPipeline(int iteration, int pipeline) {
    const double factor = iteration == 1 ? 10 : 1;
    for (const int stage : {0, 1}) {
      const WorkerId worker = Worker(pipeline, stage);
      const double begin = 1000 + 100.0 * iteration;
      const auto add = [&](ActionKind kind, double start, double ms) {
        samples_.actions.push_back({worker, Of(kind, worker), iteration, start, start + ms});
      };
      const auto hold = [&](ActionKind kind, double bytes) {
        samples_.held.push_back({worker, Of(kind, worker), iteration, bytes});
      };
      add(ActionKind::kForward, begin, factor * (2 + stage));
      hold(ActionKind::kForward, 800);
      add(ActionKind::kBackwardInput, begin + 10, factor * 3);
      hold(ActionKind::kBackwardInput, stage == 0 ? -200 : 100);
      add(ActionKind::kBackwardWeight, begin + 20, factor * 1);
      hold(ActionKind::kBackwardWeight, stage == 0 ? -600 : -900);
      // Pipeline 1 comes 5 ms later; both are through at 38.
      add(ActionKind::kReduceGrad, begin + 30 + 5 * pipeline, 8 - 5 * pipeline);
      // The upper stage comes last, and hears of the result first.
      add(ActionKind::kValidate, begin + 40 + stage, 4 - 2 * stage);
      add(ActionKind::kStep, begin + 50, factor * 6);
    }
    const WorkerId lower = Worker(pipeline, 0);
    const WorkerId upper = Worker(pipeline, 1);
    samples_.sends.push_back({lower, upper, SentKind::kActivation, iteration, 4096, factor * 0.5});
    samples_.sends.push_back({upper, lower, SentKind::kGradient, iteration, 4096, factor * 0.25});
    samples_.sends.push_back({lower, upper, SentKind::kNorm, iteration, 16, factor * 0.1});
  }
};

TEST_F(ProfileReportTest, ACollectiveCountsFromTheLastToBegin) {
  const StatusOr<ProfileReport> report = Report();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->iterations, 3);
  EXPECT_EQ(report->iteration_ms.median, 100);
  EXPECT_EQ(report->stages[0].ms.at(ActionKind::kForward).median, 2);
  EXPECT_EQ(report->stages[0].ms.at(ActionKind::kForward).samples, 6);
  EXPECT_EQ(report->stages[0].ms.at(ActionKind::kReduceGrad).median, 3);
  EXPECT_EQ(report->stages[0].ms.at(ActionKind::kReduceGrad).samples, 3);
  EXPECT_EQ(report->stages[0].ms.at(ActionKind::kValidate).median, 3);
  EXPECT_EQ(report->stages[1].ms.at(ActionKind::kValidate).median, 2);
}

// The lower stage hears of the verdict with its first gradient, the upper one is long past it.
TEST_F(ProfileReportTest, AStaggeredValidationIsItsStagesOwn) {
  for (ActionSample& sample : samples_.actions) {
    if (sample.action.kind != ActionKind::kValidate) continue;
    const double begin = 1000 + 100.0 * sample.iteration;
    const bool is_upper = sample.worker.stage == StageId(1);
    sample.start_ms = begin + (is_upper ? 3 : 9);
    sample.end_ms = sample.start_ms + (is_upper ? 0.5 : 0.25);
  }
  const StatusOr<ProfileReport> report = Report();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->stages[0].ms.at(ActionKind::kValidate).median, 0.25);
  EXPECT_EQ(report->stages[1].ms.at(ActionKind::kValidate).median, 0.5);
  EXPECT_TRUE(CostsOf(*report).ok()) << CostsOf(*report).status();
}

TEST_F(ProfileReportTest, TheFirstIterationsAreLeftOut) {
  EXPECT_EQ(Report(0)->stages[0].ms.at(ActionKind::kForward).p95, 20);
  EXPECT_EQ(Report(1)->stages[0].ms.at(ActionKind::kForward).p95, 2);
  const StatusOr<ProfileReport> nothing = Report(kIterations);
  EXPECT_TRUE(absl::IsDataLoss(nothing.status()));
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr("first 4"));
}

TEST_F(ProfileReportTest, LinksHaveLatencyAndBandwidth) {
  const StatusOr<ProfileReport> report = Report();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->links.size(), 4U);
  const LinkProfile& up = report->links[0];
  EXPECT_EQ(ToString(up.from) + ToString(up.to), "0:00:1");
  EXPECT_EQ(up.ms.median, 0.5);
  EXPECT_EQ(up.latency_ms, 0.1);
  EXPECT_DOUBLE_EQ(*up.bytes_per_s, 4096 / 0.4e-3);
  EXPECT_EQ(report->links[1].latency_ms, std::nullopt);  // no norm went down
}

TEST_F(ProfileReportTest, CostsAreTheMediansAndReadBackEqual) {
  const StatusOr<ProfileReport> report = Report();
  ASSERT_TRUE(report.ok()) << report.status();
  const StatusOr<CostProfile> costs = CostsOf(*report);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const StageCosts& lower = costs->stages[0];
  EXPECT_EQ(ToUnits(lower.forward), 2);
  EXPECT_EQ(ToUnits(lower.backward_input), 3);
  EXPECT_EQ(ToUnits(lower.backward_weight), 1);
  EXPECT_EQ(ToUnits(lower.all_reduce), 3);
  EXPECT_EQ(ToUnits(lower.optimizer), 3 + 6);
  EXPECT_EQ(lower.activation_bytes, 800);
  EXPECT_EQ(lower.deferred_bytes, 600);
  EXPECT_EQ(lower.boundary_bytes, 4096);
  EXPECT_EQ(lower.state_bytes, 3000);
  EXPECT_EQ(ToUnits(costs->send_forward[0]), 0.5);
  EXPECT_EQ(ToUnits(costs->send_backward[0]), 0.25);
  // The upper stage keeps more for W than for I: a plan takes it all at F.
  EXPECT_EQ(report->stages[1].freed_bytes, -100);
  EXPECT_EQ(report->stages[1].peak_bytes, 900);
  EXPECT_EQ(costs->stages[1].activation_bytes, 900);
  EXPECT_EQ(costs->stages[1].deferred_bytes, 900);

  const StatusOr<CostProfile> read = ProfileFromJson(ProfileAsJson(*report, *costs, 99.5));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *costs);
  EXPECT_THAT(ProfileAsText(*report, 99.5), HasSubstr("3 iterations measured; the 1 before them"));
}

TEST_F(ProfileReportTest, AWholeBackwardPassIsHalfIAndHalfW) {
  std::erase_if(samples_.actions, [](const ActionSample& sample) {
    return sample.action.kind == ActionKind::kBackwardWeight;
  });
  std::erase_if(samples_.held, [](const HeldSample& sample) {
    return sample.action.kind == ActionKind::kBackwardWeight;
  });
  for (ActionSample& sample : samples_.actions) {
    if (sample.action.kind == ActionKind::kBackwardInput) {
      sample.action.kind = ActionKind::kBackward;
    }
  }
  const StatusOr<CostProfile> costs = CostsOf(*Report());
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(ToUnits(costs->stages[0].backward_input), 1.5);
  EXPECT_EQ(ToUnits(costs->stages[0].backward_weight), 1.5);
  EXPECT_EQ(costs->stages[0].deferred_bytes, costs->stages[0].activation_bytes);
}

}  // namespace
}  // namespace recycle
