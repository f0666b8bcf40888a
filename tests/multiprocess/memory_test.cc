// The memory that activations take: as the plan says, with and without a death, and however many
// micro-batches an iteration has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "job.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/validate.h"

namespace recycle::testing {
namespace {

constexpr int kStages = 3;
constexpr int kDeath = 2;  // iteration in which a worker dies
constexpr int kIterations = 5;

Job MakeJob(int micro_batches, bool death) {
  return Job({.data = 3,
              .pipeline = kStages,
              .micro_batches = micro_batches,
              .micro_batch_size = 2,
              .iterations = kIterations,
              .layers = kStages,
              .hidden = 64,
              .sequence = 64,
              .inject = death ? std::vector<std::string>{fmt::format(
                                    "kill 1:1 at F of iteration {}", kDeath)}
                              : std::vector<std::string>{},
              .arguments = {"--set", "log.profile=true", "--set", "schedule.memory_cap=1f1b"}});
}

Plan ReadPlan(const Job& job, const std::string& name) {
  return ReadPlanFile((job.run_folder() / "plans" / name).string()).value();
}

// Resident memory, by stage: the largest of the run. Boundary logs go to their file at once.
std::vector<double> ResidentPeaks(int micro_batches) {
  Job job({.data = 2,
           .pipeline = kStages,
           .micro_batches = micro_batches,
           .micro_batch_size = 2,
           .iterations = 4,
           .layers = kStages,
           .hidden = 256,
           .sequence = 64,
           .inject = {fmt::format("kill 1:1 at F of iteration {}", kDeath)},
           .arguments = {"--set", "schedule.memory_cap=1f1b", "--set", "resilience.log_bytes=0"}});
  EXPECT_EQ(job.Run(), 0) << job.Output();
  return job.Lines("metrics.jsonl").back().at("peak_bytes").get<std::vector<double>>();
}

// What `worker`'s tensors held for micro-batches at most, after an action of `iteration`.
double MeasuredPeak(const Job& job, WorkerId worker, int iteration) {
  double held = 0;
  double peak = 0;
  for (const nlohmann::json& line : job.Lines(fmt::format(
           "logs/profile-{}-{}.jsonl", worker.pipeline.value(), worker.stage.value()))) {
    if (!line.contains("held")) continue;
    if (!HasMicroBatch(ParseAction(line.at("a").get<std::string>())->kind)) continue;
    held += line.at("held").get<double>();
    if (line.at("it") == iteration) peak = std::max(peak, held);
  }
  return peak;
}

// By stage, the most of its workers in whole iterations of `plan`, each of which is held to it.
std::vector<double> PeaksAsPlanned(const Job& job, const Plan& plan, int iteration) {
  const std::vector<double> planned = PeakMemory(plan);
  std::vector<double> peaks(kStages);
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const WorkerId worker = plan.workers[w].worker;
    const double measured = MeasuredPeak(job, worker, iteration);
    fmt::print("{} in iteration {}: {:.0f} bytes, {:+.2f}% to the plan\n", ToString(worker),
               iteration, measured, 100 * (measured / planned[w] - 1));
    EXPECT_NEAR(measured / planned[w], 1.0, 0.1)
        << ToString(worker) << " in iteration " << iteration;
    double& peak = peaks[static_cast<std::size_t>(worker.stage.value())];
    peak = std::max(peak, measured);
  }
  return peaks;
}

class MemoryTest : public ::testing::TestWithParam<bool> {};

TEST_P(MemoryTest, PeaksAreThePlansAndDoNotGrowWithTheMicroBatches) {
  const bool death = GetParam();
  std::map<int, std::vector<double>> activations;
  for (const int micro_batches : {8, 64}) {
    SCOPED_TRACE(fmt::format("{} micro-batches", micro_batches));
    Job job = MakeJob(micro_batches, death);
    ASSERT_EQ(job.Run(), 0) << job.Output();
    const Plan first = ReadPlan(job, "g1.json");
    activations[micro_batches] = PeaksAsPlanned(job, first, 1);
    if (!death) continue;
    // The rest of the iteration it died in, from wherever each worker was, and whole ones after it.
    const Plan rest = ReadPlan(job, fmt::format("g2_t{}.json", kDeath));
    const std::vector<double> before = PeakMemory(first);
    const std::vector<double> planned = PeakMemory(rest);
    for (std::size_t w = 0; w < rest.workers.size(); ++w) {
      const WorkerId worker = rest.workers[w].worker;
      const auto at = std::find_if(first.workers.begin(), first.workers.end(),
                                   [&](const auto& other) { return other.worker == worker; });
      const double limit =
          std::max(planned[w], before[static_cast<std::size_t>(at - first.workers.begin())]);
      EXPECT_LE(MeasuredPeak(job, worker, kDeath), 1.1 * limit) << ToString(worker);
    }
    activations[micro_batches] = PeaksAsPlanned(job, ReadPlan(job, "g2.json"), kIterations);
  }
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    const double growth = activations[64][stage] / activations[8][stage] - 1;
    fmt::print("stage {}: activations {:.2f} MB, {:+.2f}% with 64 micro-batches\n", stage,
               activations[8][stage] / 1e6, 100 * growth);
    EXPECT_LT(growth, 0.05) << "stage " << stage;
  }
}

TEST(ResidentMemoryTest, DoesNotGrowWithTheMicroBatches) {
  const std::vector<double> few = ResidentPeaks(8);
  const std::vector<double> many = ResidentPeaks(64);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    const double growth = many[stage] / few[stage] - 1;
    fmt::print("stage {}: {:.1f} MB resident, {:+.2f}% with 64 micro-batches\n", stage,
               few[stage] / 1e6, 100 * growth);
    EXPECT_LT(growth, 0.05) << "stage " << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, MemoryTest, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "One" : "None"; });

}  // namespace
}  // namespace recycle::testing
