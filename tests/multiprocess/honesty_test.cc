// It is real: what the program says of itself, held against traces and the operating system.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <set>

#include "job.h"
#include "recycle/base/prng.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/timeline.h"
#include "recycle/plan/validate.h"

namespace recycle::testing {
namespace {

// A legal plan whose workers run their actions in random order: repeatedly starts a random action
// whose inputs are there, so that the order it makes cannot deadlock.
Plan ShuffledPlan(int data, int pipeline, int micro_batches, Prng& prng) {
  Plan plan;
  plan.parallel = {.data = data, .pipeline = pipeline};
  plan.micro_batches = micro_batches;
  plan.options = {.decoupled = true, .staggered = false};
  plan.costs.stages.assign(pipeline, {.forward = kTicksPerUnit,
                                      .backward_input = kTicksPerUnit,
                                      .backward_weight = kTicksPerUnit});
  plan.costs.send_forward.assign(pipeline - 1, 0);
  plan.costs.send_backward.assign(pipeline - 1, 0);
  plan.method = "shuffled";
  for (const WorkerId worker : LiveWorkers(plan.parallel, {})) plan.workers.push_back({worker, {}});
  std::vector<std::pair<std::size_t, Action>> ready;  // index of the worker, action
  const auto offer = [&](ActionKind kind, int stage, MicroBatch batch, int owner) {
    ready.emplace_back(owner * pipeline + stage, Action{kind, StageId(stage), batch});
  };
  for (int home = 0; home < data; ++home) {
    for (int m = 0; m < micro_batches; ++m) {
      offer(ActionKind::kForward, 0, {PipelineId(home), m}, static_cast<int>(prng.Below(data)));
    }
  }
  while (!ready.empty()) {
    std::swap(ready[prng.Below(ready.size())], ready.back());
    const std::size_t worker = ready.back().first;
    const Action action = ready.back().second;
    ready.pop_back();
    plan.workers[worker].actions.push_back(action);
    const int stage = action.stage.value();
    const auto owner_at = [&](int at) {  // who ran the forward of this micro-batch at stage `at`
      for (int k = 0; k < data; ++k) {
        const std::vector<Action>& done = plan.workers[k * pipeline + at].actions;
        const Action forward{ActionKind::kForward, StageId(at), action.micro_batch};
        if (std::find(done.begin(), done.end(), forward) != done.end()) return k;
      }
      return -1;
    };
    if (action.kind == ActionKind::kForward && stage + 1 < pipeline) {
      offer(ActionKind::kForward, stage + 1, action.micro_batch,
            static_cast<int>(prng.Below(data)));
    } else if (action.kind == ActionKind::kForward) {
      offer(ActionKind::kBackwardInput, stage, action.micro_batch, owner_at(stage));
    } else if (action.kind == ActionKind::kBackwardInput) {
      offer(ActionKind::kBackwardWeight, stage, action.micro_batch, owner_at(stage));
      if (stage > 0) {
        offer(ActionKind::kBackwardInput, stage - 1, action.micro_batch, owner_at(stage - 1));
      }
    }
  }
  AddStepActions(plan);
  return plan;
}

class ShuffledPlans : public ::testing::TestWithParam<int> {};

TEST_P(ShuffledPlans, AreExecutedInExactlyTheirOrder) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  Prng prng(seed);
  const int data = 2 + static_cast<int>(prng.Below(2));
  const int pipeline = 2 + static_cast<int>(prng.Below(2));
  const Plan plan = ShuffledPlan(data, pipeline, 3, prng);
  ASSERT_TRUE(Validate(plan).ok()) << "seed " << seed << ": " << Validate(plan);
  JobOptions options = {.data = data, .pipeline = pipeline, .micro_batches = 3, .iterations = 2};
  Job unshuffled(options);
  ASSERT_EQ(unshuffled.Run(), 0) << unshuffled.Output();
  options.arguments = {"--plan", std::string(::testing::TempDir()) +
                                     fmt::format("/shuffled-{}-{}.json", getpid(), seed)};
  ASSERT_TRUE(WritePlanFile(plan, options.arguments[1]).ok());
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << "seed " << seed << "\n" << job.Output();
  std::map<std::pair<std::string, int>, std::vector<Action>> executed;  // by worker, iteration
  for (const nlohmann::json& event : job.TraceEvents()) {
    const StatusOr<Action> action = ParseAction(event.at("args").at("action").get<std::string>());
    ASSERT_TRUE(action.ok()) << action.status();
    const std::string worker =
        fmt::format("{}:{}", event.at("pid").get<int>(), event.at("tid").get<int>());
    executed[{worker, event.at("args").at("iteration").get<int>()}].push_back(*action);
  }
  for (const WorkerSchedule& worker : plan.workers) {
    for (const int iteration : {1, 2}) {
      const std::vector<Action>& ran = executed[{ToString(worker.worker), iteration}];
      EXPECT_EQ(ToString(ran), ToString(worker.actions))
          << "seed " << seed << ", worker " << worker.worker << ", iteration " << iteration;
    }
  }
  EXPECT_EQ(Differs(job.Losses(), unshuffled.Losses(), 1e-5), "") << "seed " << seed;
  std::filesystem::remove(options.arguments[1]);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ShuffledPlans, ::testing::Range(1, 6));

TEST(Honesty, EveryListenerIsOnLoopback) {
  Job job({.data = 2, .pipeline = 2, .iterations = 100'000});
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(2)) << job.Output();
  std::vector<pid_t> pids;
  for (const ProcessIdentity& process : Descendants(job.pid())) pids.push_back(process.pid);
  const std::vector<std::string> addresses = ListeningAddresses(pids);
  EXPECT_GE(addresses.size(), 1U);  // the coordinator; executors listen while they connect
  for (const std::string& address : addresses) EXPECT_EQ(address, "127.0.0.1");
  kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.Wait(), 143) << job.Output();
}

// In a network namespace where there is nothing but loopback.
void OnlyLoopback() {
  if (unshare(CLONE_NEWNET) != 0) _exit(126);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) _exit(125);
  close(fd);
}

TEST(Honesty, NoExternalHostIsNeeded) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a network namespace";
  Job job({.data = 2,
           .pipeline = 2,
           .iterations = 5,
           .inject = {"kill 1:1 at F of iteration 3"},
           .before_exec = OnlyLoopback});
  const int code = job.Run();
  if (code == 126) GTEST_SKIP() << "network namespaces are not permitted here";
  EXPECT_EQ(code, 0) << job.Output();
}

std::uint64_t SocketBytes(const nlohmann::json& summary, const char* key) {
  return summary.at("traffic").at(key).get<std::uint64_t>();
}

TEST(Honesty, NoTensorPassesThroughTheCoordinator) {
  // The wider the model, the more the links carry; what the coordinator sees stays as it is.
  const auto run = [](int hidden) {
    Job job({.data = 2, .pipeline = 2, .iterations = 6, .hidden = hidden});
    EXPECT_EQ(job.Run(), 0) << job.Output();
    return job.Summary();
  };
  const nlohmann::json narrow = run(16);
  const nlohmann::json wide = run(256);
  EXPECT_GT(SocketBytes(wide, "links_bytes"), 8 * SocketBytes(narrow, "links_bytes"));
  EXPECT_LT(static_cast<double>(SocketBytes(wide, "coordinator_bytes")),
            1.5 * static_cast<double>(SocketBytes(narrow, "coordinator_bytes")));
}

TEST(Honesty, AWorkerHoldsItsOwnStageOnly) {
  // Private memory as the kernel counts it: four stages of a wide model weigh less each than one
  // process that holds it all, by most of the parameters and moments of the other stages.
  const auto private_kib = [](int pipeline) {
    Job job({.data = 1, .pipeline = pipeline, .iterations = 100'000, .layers = 8, .hidden = 384});
    job.Start();
    EXPECT_TRUE(job.AwaitIteration(2)) << job.Output();
    long largest = 0;
    for (const auto& [worker, pid] : job.WorkerPids()) {
      std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
      std::string word;
      while (file >> word) {
        long kib = 0;
        if (word == "Private_Dirty:" && file >> kib) largest = std::max(largest, kib);
      }
    }
    kill(job.pid(), SIGTERM);
    EXPECT_EQ(job.Wait(), 143) << job.Output();
    return largest;
  };
  const long whole = private_kib(1);
  const long stage = private_kib(4);
  fmt::print("largest private memory: {} KiB with one stage, {} KiB with four\n", whole, stage);
  // 8 blocks of 384: 14.2 M parameters, 227 MB with gradient and moments; a quarter stays.
  EXPECT_LT(stage, whole - 120'000);
}

}  // namespace
}  // namespace recycle::testing
