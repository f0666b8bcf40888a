// Actions of three workers in one process, over real links: what they leave in log and ledger, and
// what a regeneration must not leave.
#include "recycle/executor/action_runner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

constexpr int kIteration = 2;

class SilentLink : public ControlLink {
 public:
  void Send(const ExecutorMessage& /*message*/) override {}
  StatusOr<CoordinatorMessage> Receive() override { return absl::UnavailableError("nobody"); }
  void Close() override {}
};

// Everything below a training loop.
struct TestWorker {
  TestWorker(ExecutorOptions job, WorkerId worker, const std::shared_ptr<Device>& device)
      : options([&] {
          job.worker = worker;
          return job;
        }()),
        batches(*BatchSource::Open(options)),
        model(options.model, options.layers[worker.stage.value()].begin,
              options.layers[worker.stage.value()].end),
        network({.self = worker, .num_stages = 2, .tied = false, .max_payload_bytes = 1 << 16},
                device, [](Generation, WorkerId, const std::string&) {}),
        injector(options, control, clock),
        log(1 << 20, ""),
        results(options.parallel.data * options.micro_batches),
        runner(options,
               {model, batches, network, injector, clock, watch, log, ledger, norms, quanta}) {}

  Status Run(const char* action) {
    return runner.Run(*ParseAction(action), kIteration, results).status();
  }
  Status Regenerate(const char* action, bool backward_follows) {
    return runner
        .Regenerate(*ParseAction(action), kIteration, backward_follows, /*beside_next=*/false)
        .status();
  }
  std::vector<std::byte> Logged(FrameKind kind, int stage, int micro_batch) const {
    const StatusOr<SharedBytes> found = log.Find({kIteration, kind, StageId(stage), micro_batch});
    return found.ok() ? **found : std::vector<std::byte>();
  }
  bool HasNoGradient() {
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.gradient.count_nonzero().item<std::int64_t>() != 0) return false;
    }
    return true;
  }

  const ExecutorOptions options;
  const Clock& clock = SystemClock();
  SilentLink control;
  BatchSource batches;
  StageModel model;
  PeerNetwork network;
  FaultInjector injector;
  ActionWatch watch;
  BoundaryLog log;
  MicroBatchLedger ledger;
  MicroBatchResults results;
  NormBook norms;
  QuantumBook quanta{options, norms};
  ActionRunner runner;
};

// 0:0 and two workers of stage 1; 1:0 does not live.
class ActionRunnerTest : public testing::Test {
 protected:
  ActionRunnerTest()
      : job_(MakeCluster(TwoByTwo(), folder_.path()).executor),
        first_(job_, Worker(0, 0), device_),
        last_(job_, Worker(0, 1), device_),
        peer_(job_, Worker(1, 1), device_) {
    const Prepare prepare{.generation = Generation(1),
                          .members = {Worker(0, 0), Worker(0, 1), Worker(1, 1)},
                          .dead = {},
                          .relinked = {},
                          .reason = "test",
                          .restore = {}};
    Resume resume;
    resume.generation = Generation(1);
    for (TestWorker* worker : Workers()) {
      resume.endpoints[worker->options.worker] = *worker->network.Open(prepare);
    }
    std::vector<std::thread> threads;
    for (TestWorker* worker : Workers()) {
      threads.emplace_back([worker, &resume] {
        const Status connected = worker->network.Connect(resume);
        RC_CHECK(connected.ok()) << connected;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static SmallJob TwoByTwo() {
    SmallJob job;
    job.data = 2;
    job.pipeline = 2;
    job.micro_batches = 2;
    job.dropout = 0.2;
    return job;
  }
  std::vector<TestWorker*> Workers() { return {&first_, &last_, &peer_}; }

  // `queues` by worker; results go to whoever consumes them there.
  void Route(const std::map<WorkerId, std::vector<const char*>>& queues) {
    Plan plan;
    for (const auto& [worker, actions] : queues) {
      plan.workers.push_back({worker, {}});
      for (const char* action : actions)
        plan.workers.back().actions.push_back(*ParseAction(action));
    }
    routes_.clear();
    for (TestWorker* worker : Workers()) {
      routes_.push_back(std::make_unique<Routes>(plan, worker->options.worker.stage));
      worker->runner.SetRoutes(routes_.back().get());
    }
  }

  const TestFolder folder_;
  const std::shared_ptr<Device> device_ = *Device::Create("127.0.0.1");
  const ExecutorOptions job_;
  TestWorker first_;
  TestWorker last_;
  TestWorker peer_;
  std::vector<std::unique_ptr<Routes>> routes_;
};

TEST_F(ActionRunnerTest, AnActionLeavesItsTraceInLedgerLogAndResults) {
  Route({{Worker(0, 0), {"0F0.1", "0I0.1"}}, {Worker(0, 1), {"1F0.1"}}});
  ASSERT_TRUE(first_.Run("0F0.1").ok());
  ASSERT_TRUE(last_.Run("1F0.1").ok());
  ASSERT_TRUE(last_.Run("1I0.1").ok());
  ASSERT_TRUE(first_.Run("0I0.1").ok());
  ASSERT_TRUE(first_.Run("0W0.1").ok());
  EXPECT_FALSE(first_.Logged(FrameKind::kActivation, 1, 1).empty());
  EXPECT_FALSE(last_.Logged(FrameKind::kGradient, 0, 1).empty());
  const auto progress = [](const TestWorker& worker) {
    return worker.ledger.Report({}, {}, 2).at(kIteration).progress.begin()->second;
  };
  EXPECT_EQ(progress(first_), Progress::kWeight);
  EXPECT_EQ(progress(last_), Progress::kInput);
  EXPECT_GT(last_.results.values()[1 * 3 + 1], 0) << "tokens of micro-batch 1";
  EXPECT_FALSE(first_.HasNoGradient());
}

// recovery-rules.md, counterexample 1: a gradient is lost behind the commit of its stage.
TEST_F(ActionRunnerTest, ARegenerationGivesTheVeryBitsAndLeavesNothingElse) {
  Route({{Worker(0, 0), {}}, {Worker(0, 1), {"1F0.1"}}});
  ASSERT_TRUE(first_.Run("0F0.1").ok());
  ASSERT_TRUE(last_.Run("1F0.1").ok());
  ASSERT_TRUE(last_.Run("1I0.1").ok());
  // 0:1 and its log die; 1:1 makes the gradient again, for 0:0.
  Route({{Worker(0, 0), {"0I0.1"}}, {Worker(1, 1), {"1F0.1", "1I0.1"}}});
  const BoundaryTensor activation{BoundaryKind::kActivation, StageId(1), {PipelineId(0), 1}};
  ASSERT_TRUE(first_.runner.Resend(activation, kIteration, Worker(1, 1)).ok());
  ASSERT_TRUE(peer_.Regenerate("1F0.1", /*backward_follows=*/true).ok());
  EXPECT_GT(peer_.model.stash_bytes().total(), 0);
  ASSERT_TRUE(peer_.Regenerate("1I0.1", /*backward_follows=*/false).ok());
  ASSERT_TRUE(first_.Run("0I0.1").ok());
  EXPECT_EQ(peer_.Logged(FrameKind::kGradient, 0, 1), last_.Logged(FrameKind::kGradient, 0, 1));
  EXPECT_EQ(peer_.model.stash_bytes().total(), 0);
  EXPECT_TRUE(peer_.ledger.Report({}, {}, 2).empty());
  EXPECT_TRUE(peer_.HasNoGradient());
  for (const double value : peer_.results.values()) EXPECT_EQ(value, 0);
}

TEST_F(ActionRunnerTest, ARegeneratedForwardKeepsItsStashOnlyForABackwardThatComes) {
  Route({{Worker(0, 0), {}}});
  ASSERT_TRUE(first_.Regenerate("0F0.0", /*backward_follows=*/false).ok());
  EXPECT_EQ(first_.model.stash_bytes().total(), 0);
  EXPECT_FALSE(first_.Logged(FrameKind::kActivation, 1, 0).empty()) << "for whoever asks";
  ASSERT_TRUE(first_.Regenerate("0F0.1", /*backward_follows=*/true).ok());
  EXPECT_GT(first_.model.stash_bytes().total(), 0);
  first_.runner.ForgetRegenerated();  // the generation ended in between
  EXPECT_EQ(first_.model.stash_bytes().total(), 0);
  ASSERT_TRUE(first_.Run("0F0.1").ok()) << "as if nothing had happened";
}

TEST_F(ActionRunnerTest, AForwardIsDoneAlsoWhenNobodyCanReceiveIt) {
  Route({{Worker(0, 0), {}}, {Worker(0, 1), {"1F0.0"}}});
  first_.network.CutLink(Worker(0, 1));
  ASSERT_TRUE(first_.Run("0F0.0").ok());
  EXPECT_FALSE(first_.Logged(FrameKind::kActivation, 1, 0).empty());
  EXPECT_EQ(first_.ledger.Report({}, {}, 2).size(), 1U);
}

TEST_F(ActionRunnerTest, AnInterruptedTakeLeavesTheActionUndone) {
  Route({});
  last_.network.Interrupt("generation 2 is prepared");
  EXPECT_TRUE(absl::IsAborted(last_.Run("1F0.0")));
  EXPECT_TRUE(last_.ledger.Report({}, {}, 2).empty());
  EXPECT_EQ(last_.model.stash_bytes().total(), 0);
}

}  // namespace
}  // namespace recycle
