// What users of such systems suffer from, as tests with the numbers their recipes have: A1, A2, A5
// and A9. The others stand where their kind stands: A3 and A4 in rejoin_test, A6 and A7 in
// checkpoint_test, A8 in parity_test, A10 in lifecycle_test.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>

#include "job.h"
#include "recycle/base/prng.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "unharmed.h"

namespace recycle::testing {
namespace {

constexpr double kLossTolerance = 1e-6;

// A worker dies inside an all-reduce: nobody waits for a time-out of the collective.
TEST(AcceptanceTest, A1FastAbort) {
  constexpr int kIteration = 10;
  const JobOptions options{
      .data = 3,
      .pipeline = 2,
      .iterations = 30,
      .inject = {fmt::format("kill 1:1 at all-reduce of iteration {}", kIteration)}};
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(kIteration + 1)) << job.Output();
  const double seen = UnixSeconds();
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  const std::vector<nlohmann::json> failures = job.Events("failure_detected");
  ASSERT_EQ(failures.size(), 1U) << job.Output();
  const nlohmann::json& failure = failures.front();
  EXPECT_EQ(failure.at("worker"), "1:1");
  EXPECT_FALSE(failure.at("detected_by").get<std::string>().empty());
  const double killed =
      failure.at("time").get<double>() - failure.at("detect_ms").get<double>() * 1e-3;
  fmt::print("kill to the end of the next iteration: {:.0f} ms\n", (seen - killed) * 1e3);
  EXPECT_LT(seen - killed, 2.0);
  EXPECT_GT(job.Events("resumed").back().at("resume_ms"), 0.0);
  ExpectUnharmedResults(job, options, 1);  // and no survivor was started again
}

std::vector<float> ReadFloats(const Checkpoint& checkpoint, const ManifestTensor& tensor) {
  std::ifstream file(checkpoint.path + "/" + tensor.file, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(tensor.begin));
  std::vector<float> values(tensor.num_bytes() / sizeof(float));
  std::string bytes(tensor.num_bytes(), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << checkpoint.path << "/" << tensor.file;
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

StatusOr<Checkpoint> LastCheckpoint(const Job& job, int iteration) {
  return OpenCheckpoint((job.run_folder() / "checkpoints" / CheckpointName(iteration)).string());
}

// Per parameter |d|^2 <= 1e-3 |p|^2: under Adam single elements may differ by more than rounding.
void ExpectSameParameters(const Job& job, const Job& reference, int iteration) {
  const StatusOr<Checkpoint> got = LastCheckpoint(job, iteration);
  const StatusOr<Checkpoint> want = LastCheckpoint(reference, iteration);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_EQ(got->manifest.tensors.size(), want->manifest.tensors.size());
  for (const ManifestTensor& tensor : want->manifest.tensors) {
    if (tensor.name.starts_with(kFirstMoment) || tensor.name.starts_with(kSecondMoment)) continue;
    const ManifestTensor* other = got->manifest.FindTensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    const std::vector<float> p = ReadFloats(*want, tensor);
    const std::vector<float> q = ReadFloats(*got, *other);
    ASSERT_EQ(p.size(), q.size()) << tensor.name;
    double size = 0;
    double difference = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      size += static_cast<double>(p[i]) * p[i];
      difference += std::pow(static_cast<double>(p[i]) - q[i], 2);
    }
    EXPECT_LE(difference, 1e-3 * size) << tensor.name;
  }
}

// A victim and a point: any worker, or the agent of a pipeline with all it started.
std::string DrawFault(Prng& prng, int pipeline, int iteration, int checkpoint_every) {
  constexpr int kStages = 2;
  const auto stage = static_cast<int>(prng.Below(kStages + 1));
  if (stage == kStages)
    return fmt::format("kill agent:{} at F of iteration {}", pipeline, iteration);
  constexpr const char* kPoints[] = {"F", "I", "W", "all-reduce", "step", "checkpoint"};
  const std::string point = kPoints[prng.Below(std::size(kPoints))];
  if (point == "checkpoint") iteration += checkpoint_every - iteration % checkpoint_every;
  return fmt::format("kill {}:{} at {} of iteration {}", pipeline, stage, point, iteration);
}

// 50 deaths in 25 jobs: of every three pipelines one is spared. Eight layers, so that everybody has
// something to save.
TEST(AcceptanceTest, A2AnyProcessAtAnyTime) {
  constexpr int kJobs = 25;
  constexpr int kEvery = 5;
  JobOptions options{.data = 3,
                     .pipeline = 2,
                     .iterations = 30,
                     .layers = 8,
                     .agents = 3,
                     .checkpoint_every = kEvery};
  Job reference(options);
  ASSERT_EQ(reference.Run(), 0) << reference.Output();
  for (std::uint64_t seed = 1; seed <= kJobs && !HasFailure(); ++seed) {
    Prng prng(seed);
    const auto spared = static_cast<int>(prng.Below(3));
    const auto first = static_cast<int>(2 + prng.Below(10));
    const auto second = static_cast<int>(14 + prng.Below(10));
    options.inject = {DrawFault(prng, (spared + 1) % 3, first, kEvery),
                      DrawFault(prng, (spared + 2) % 3, second, kEvery)};
    SCOPED_TRACE(fmt::format("seed {}: {}, {}", seed, options.inject[0], options.inject[1]));
    Job job(options);
    ASSERT_EQ(job.Run(), 0) << job.Output();  // every fault fired, or it would be 1
    EXPECT_EQ(Differs(job.Losses(), reference.Losses(), kLossTolerance), "");
    EXPECT_EQ(job.SamplesPerIteration(), reference.SamplesPerIteration());
    EXPECT_EQ(job.Events("worker_joined").size(), 6U);  // nobody was started again
    for (const nlohmann::json& resumed : job.Events("resumed")) {
      EXPECT_LE(resumed.at("lost_iterations"), 1) << resumed;
    }
    ExpectSameParameters(job, reference, options.iterations);
  }
}

// The samples of an iteration, their number and the loss are those of the unharmed run.
TEST(AcceptanceTest, A5SameSamplesSameBatch) {
  JobOptions options{.data = 3, .pipeline = 2, .micro_batches = 3, .iterations = 12};
  Job reference(options);
  ASSERT_EQ(reference.Run(), 0) << reference.Output();
  options.inject = {"kill 0:1 at I of iteration 3", "kill 2:0 at all-reduce of iteration 7"};
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(job.SamplesPerIteration(), reference.SamplesPerIteration());
  EXPECT_EQ(Differs(job.Losses(), reference.Losses(), kLossTolerance), "");
  const auto lines = job.Lines("metrics.jsonl");
  ASSERT_EQ(lines.size(), 12U);
  for (const nlohmann::json& line : lines) EXPECT_EQ(line.at("tokens"), lines.front().at("tokens"));
  for (const auto& [iteration, samples] : job.SamplesPerIteration()) {
    EXPECT_EQ(samples.size(), 9U) << "iteration " << iteration;
  }
}

// Seven jobs start at once and run while an eighth one is started twenty times, one after the
// other. Worker 0:0 of each waits a hundred times as long as it works: the machine is to be
// crowded, not overloaded.
TEST(AcceptanceTest, A9ManyJobsOnOneMachine) {
  JobOptions options{.data = 2,
                     .pipeline = 2,
                     .iterations = 100'000,
                     .failure_timeout_ms = 20000,
                     .inject = {"slow x100 0:0 at F of iteration 1"}};
  std::vector<std::unique_ptr<Job>> neighbours;
  for (int i = 0; i < 7; ++i) {
    neighbours.push_back(std::make_unique<Job>(options));
    neighbours.back()->Start();
  }
  for (const std::unique_ptr<Job>& job : neighbours) {
    ASSERT_TRUE(job->AwaitIteration(1)) << job->Output();
  }
  options.iterations = 3;
  options.inject.clear();
  std::vector<double> losses;
  for (int start = 0; start < 20; ++start) {
    Job job(options);
    ASSERT_EQ(job.Run(), 0) << "start " << start << ": " << job.Output();
    if (losses.empty()) losses = job.Losses();
    EXPECT_EQ(Differs(job.Losses(), losses, kLossTolerance), "");
  }
  for (const std::unique_ptr<Job>& job : neighbours) {
    kill(job->pid(), SIGTERM);
    EXPECT_EQ(job->Wait(), 143) << job->Output();
    // Their learning rates decay more slowly; the first loss is the same.
    ASSERT_FALSE(job->Losses().empty());
    EXPECT_EQ(Differs({job->Losses().front()}, {losses.front()}, kLossTolerance), "");
  }
}

}  // namespace
}  // namespace recycle::testing
