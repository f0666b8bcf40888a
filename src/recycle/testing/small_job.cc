#include "recycle/testing/small_job.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <tuple>

#include "recycle/base/check.h"
#include "recycle/base/prng.h"
#include "recycle/data/token_file.h"
#include "recycle/planner/cost_options.h"

namespace recycle {
namespace {

constexpr double kTolerance = 1e-5;

std::vector<LayerRange> SplitEvenly(int layers, int stages) {
  std::vector<LayerRange> ranges;
  ranges.reserve(static_cast<std::size_t>(stages));
  for (int i = 0; i < stages; ++i)
    ranges.push_back({layers * i / stages, layers * (i + 1) / stages});
  return ranges;
}

CostProfile UnitCosts(const Parallelism& parallel) {
  return MakeUniformProfile(UniformCosts{}, parallel).value();
}

MakePlanFunction Planner(const SmallJob& job) {
  return [job](const PlanQuestion& question) {
    PlanRequest request;
    request.parallel = {.data = job.data, .pipeline = job.pipeline};
    request.micro_batches = job.micro_batches;
    request.costs = UnitCosts(request.parallel);
    request.failed = question.failed;
    request.slow = question.slow;
    request.options = {.decoupled = true, .staggered = job.staggered};
    request.method = question.failed.empty() ? job.method : Method::kAdaptive;
    request.effort = Effort::kOnline;
    return MakePlan(request);
  };
}

// The corpus of all jobs: 64 kinds of tokens, somewhat predictable.
std::string WriteCorpus(const std::string& folder) {
  Prng prng(5);
  std::vector<std::int32_t> tokens(4000);
  std::int32_t last = 0;
  for (std::int32_t& token : tokens) {
    last = prng.Below(3) == 0 ? static_cast<std::int32_t>(prng.Below(64)) : (last * 5 + 1) % 64;
    token = last;
  }
  const std::string path = folder + "/tokens";
  EXPECT_TRUE(WriteTokenFile(path, tokens).ok());
  return path;
}

int Iterations(const SmallJob& job) {
  return job.staggered ? kStaggeredJobIterations : kSmallJobIterations;
}

void ExpectDone(const SmallJob& job, const ClusterResult& result) {
  ASSERT_TRUE(result.end.has_value()) << "the job hangs";
  ASSERT_EQ(result.end->how, EndJob::How::kDone) << result.end->reason;
  ASSERT_EQ(result.iterations.size(), static_cast<std::size_t>(Iterations(job)));
}

// The single process that trains on the same global batch.
const ClusterResult& SingleProcess(const SmallJob& job) {
  using Key = std::tuple<int, int, bool, double, int, bool, double>;
  static auto* const results = new std::map<Key, ClusterResult>();
  const Key key(job.data * job.micro_batches, job.blocks, job.tied, job.dropout, job.validate_every,
                job.staggered, job.clip);
  if (!results->contains(key)) {
    SmallJob single = job;
    single.data = 1;
    single.pipeline = 1;
    single.micro_batches = job.data * job.micro_batches;
    single.method = Method::kOneFOneB;
    single.faults.clear();
    single.reproducible = false;
    results->emplace(key, RunJob(single));
  }
  return results->at(key);
}

void ExpectNear(double found, double expected, const char* what, std::size_t iteration) {
  EXPECT_NEAR(found, expected, kTolerance * std::abs(expected))
      << what << " of iteration " << iteration + 1;
}

}  // namespace

TestFolder::TestFolder() {
  std::string pattern = testing::TempDir() + "recycle-job-XXXXXX";
  RC_CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  path_ = pattern;
}

TestFolder::~TestFolder() { std::filesystem::remove_all(path_); }

WorkerId Worker(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

ClusterOptions MakeCluster(const SmallJob& job, const std::string& folder) {
  ClusterOptions cluster;
  ExecutorOptions& executor = cluster.executor;
  executor.parallel = {.data = job.data, .pipeline = job.pipeline};
  executor.micro_batches = job.micro_batches;
  executor.iterations = Iterations(job);
  executor.validate_every = job.validate_every;
  executor.seed = 77;
  executor.model = {.num_blocks = job.blocks,
                    .hidden = 16,
                    .heads = 2,
                    .sequence = 8,
                    .vocabulary = 64,
                    .dropout = job.dropout,
                    .tied = job.tied,
                    .seed = 77};
  executor.layers = SplitEvenly(executor.model.num_layers(), job.pipeline);
  executor.reproducible = job.reproducible;
  executor.optimizer.clip = job.clip;
  // Without clipping a high rate blows rounding up beyond the tolerance.
  executor.optimizer.lr = job.staggered ? 0.002 : 0.01;
  executor.optimizer.min_lr = 0.001;
  executor.optimizer.warmup = 3;
  executor.token_file = WriteCorpus(folder);
  executor.validation_fraction = 0.1;
  for (const std::string& text : job.faults) {
    const StatusOr<Fault> fault = ParseFault(text);
    RC_CHECK(fault.ok()) << fault.status();
    executor.faults.push_back(*fault);
  }
  executor.fault_folder = folder;
  executor.heartbeat_interval = std::chrono::milliseconds(10);
  cluster.make_plan = Planner(job);
  cluster.folder = folder;
  return cluster;
}

ClusterResult RunJob(const SmallJob& job) {
  const TestFolder folder;
  return ForkedCluster(MakeCluster(job, folder.path())).Run();
}

Plan ShuffledPlan(const SmallJob& job, std::uint64_t seed) {
  Prng prng(seed);
  Plan plan;
  plan.parallel = {.data = job.data, .pipeline = job.pipeline};
  plan.micro_batches = job.micro_batches;
  plan.options.staggered = job.staggered;
  plan.costs = UnitCosts(plan.parallel);
  std::map<WorkerId, std::vector<Action>> queues;
  for (const WorkerId worker : LiveWorkers(plan.parallel, {})) queues[worker];
  // Per micro-batch and stage: what is done (0 none, 1 F, 2 I, 3 W) and by whom.
  const int count = job.data * job.micro_batches;
  std::vector<std::vector<int>> done(static_cast<std::size_t>(count),
                                     std::vector<int>(static_cast<std::size_t>(job.pipeline)));
  std::vector<std::vector<int>> owner = done;
  for (auto& row : owner) {
    for (int& pipeline : row) {
      pipeline = static_cast<int>(prng.Below(static_cast<std::uint64_t>(job.data)));
    }
  }
  for (int left = 3 * count * job.pipeline; left > 0;) {
    const auto b = prng.Below(static_cast<std::uint64_t>(count));
    const auto i = prng.Below(static_cast<std::uint64_t>(job.pipeline));
    const bool last = i + 1 == static_cast<std::uint64_t>(job.pipeline);
    const int state = done[b][i];
    const bool ready = (state == 0 && (i == 0 || done[b][i - 1] >= 1)) ||
                       (state == 1 && (last || done[b][i + 1] >= 2)) || state == 2;
    if (!ready) continue;
    const int index = static_cast<int>(b);
    const StageId stage(static_cast<int>(i));
    const MicroBatch micro_batch{PipelineId(index / job.micro_batches), index % job.micro_batches};
    queues[{PipelineId(owner[b][i]), stage}].push_back(
        {static_cast<ActionKind>(state), stage, micro_batch});
    ++done[b][i];
    --left;
  }
  for (auto& [worker, actions] : queues) plan.workers.push_back({worker, std::move(actions)});
  AddStepActions(plan);
  return plan;
}

double Loss(const AnnounceIteration& iteration) {
  double sum = 0;
  std::int64_t tokens = 0;
  for (const MicroBatchResult& result : iteration.done.results) {
    sum += result.loss_sum;
    tokens += result.tokens;
  }
  return sum / static_cast<double>(tokens);
}

void ExpectParity(const SmallJob& job, const ClusterResult& result) {
  const ClusterResult& single = SingleProcess(job);
  ASSERT_NO_FATAL_FAILURE(ExpectDone(job, single));
  ASSERT_NO_FATAL_FAILURE(ExpectDone(job, result));
  for (std::size_t t = 0; t < result.iterations.size(); ++t) {
    const IterationDone& found = result.iterations[t].done;
    const IterationDone& expected = single.iterations[t].done;
    ExpectNear(Loss(result.iterations[t]), Loss(single.iterations[t]), "loss", t);
    ExpectNear(found.grad_norm, expected.grad_norm, "gradient norm", t);
    EXPECT_EQ(found.lr, expected.lr);
    ASSERT_EQ(found.validation_loss.has_value(), expected.validation_loss.has_value()) << t;
    if (found.validation_loss.has_value()) {
      ExpectNear(*found.validation_loss, *expected.validation_loss, "validation loss", t);
    }
  }
}

void ExpectSameBits(const ClusterResult& found, const ClusterResult& expected) {
  ASSERT_TRUE(expected.end.has_value() && found.end.has_value()) << "the job hangs";
  ASSERT_EQ(expected.end->how, EndJob::How::kDone) << expected.end->reason;
  ASSERT_EQ(found.end->how, EndJob::How::kDone) << found.end->reason;
  EXPECT_EQ(found.end->parameters_sha256, expected.end->parameters_sha256);
  ASSERT_EQ(found.iterations.size(), expected.iterations.size());
  for (std::size_t t = 0; t < found.iterations.size(); ++t) {
    const IterationDone& done = found.iterations[t].done;
    const IterationDone& wanted = expected.iterations[t].done;
    EXPECT_EQ(done.iteration, wanted.iteration);
    EXPECT_EQ(done.lr, wanted.lr);
    EXPECT_EQ(done.skipped_in_a_row, wanted.skipped_in_a_row);
    EXPECT_EQ(Loss(found.iterations[t]), Loss(expected.iterations[t])) << t;
    if (std::isfinite(wanted.grad_norm)) {
      EXPECT_EQ(done.grad_norm, wanted.grad_norm) << t;
    }
  }
}

}  // namespace recycle
