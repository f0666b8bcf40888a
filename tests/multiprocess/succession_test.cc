// The coordinator dies, and training goes on: real processes, real SIGKILL and SIGSTOP, losses
// compared with the unharmed run. Docs: docs/RECOVERY.md ("When the coordinator dies").
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "job.h"
#include "recycle/testing/certificates.h"
#include "recycle/testing/etcd_server.h"
#include "unharmed.h"

namespace recycle::testing {
namespace {

// Iterations of a job whose coordinator is replaced: long enough that training is still going on
// when the next one leads.
constexpr int kLong = 150;

// Every iteration and every sample stands in the files once, in order, whoever wrote them.
void ExpectWholeFiles(const Job& job, const JobOptions& options) {
  int next = 1;
  for (const nlohmann::json& line : job.Lines("metrics.jsonl")) {
    EXPECT_EQ(line.at("iteration"), next++);
  }
  EXPECT_EQ(next, options.iterations + 1);
  std::set<std::pair<int, std::string>> seen;
  for (const nlohmann::json& line : job.Lines("samples.jsonl")) {
    const bool is_new =
        seen.emplace(line.at("iteration").get<int>(), line.at("micro_batch").get<std::string>())
            .second;
    EXPECT_TRUE(is_new) << line;
  }
  EXPECT_EQ(std::ssize(seen), options.iterations * options.data * options.micro_batches);
  for (const char* once : {"job_started", "job_finished"}) {
    EXPECT_EQ(job.Events(once).size(), 1U) << once;
  }
  std::set<int> generations;
  for (const nlohmann::json& event : job.Events("generation")) {
    EXPECT_TRUE(generations.insert(event.at("generation").get<int>()).second) << event;
  }
  EXPECT_EQ(job.Summary().at("iterations"), options.iterations);
}

std::vector<int> Leaders(const Job& job) {
  std::vector<int> pids;
  for (const nlohmann::json& event : job.Events("leader")) pids.push_back(event.at("pid"));
  return pids;
}

struct Succession {
  std::string name;
  std::vector<std::string> inject;
  int leaders = 2;
  int lost_workers = 0;
};

class Successions : public ::testing::TestWithParam<Succession> {};

TEST_P(Successions, TrainingGoesOnWithTheSameNumbers) {
  const Succession& succession = GetParam();
  const JobOptions options = ThreeByTwo(kLong, succession.inject);
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(std::ssize(Leaders(job)), succession.leaders) << job.Output();
  EXPECT_EQ(job.Events("fault_injected").size(), succession.inject.size());
  ExpectUnharmedResults(job, options, succession.lost_workers);
  ExpectWholeFiles(job, options);
}

INSTANTIATE_TEST_SUITE_P(
    All, Successions,
    ::testing::Values(
        Succession{"killed_while_training", {"kill coordinator at F of iteration 5"}},
        Succession{"killed_at_the_start", {"kill coordinator at store of iteration 1"}},
        Succession{
            "killed_twice",
            {"kill coordinator at F of iteration 5", "kill coordinator at F of iteration 90"},
            3},
        // Nobody is told of the death until the next one leads.
        Succession{"killed_and_then_a_worker",
                   {"kill coordinator at F of iteration 5", "kill 1:1 at F of iteration 8"},
                   2,
                   1},
        // The record is stored, and nobody knows of it.
        Succession{"killed_with_the_record_stored",
                   {"kill 1:1 at F of iteration 20", "kill coordinator at store of iteration 19"},
                   2,
                   1},
        // Prepare is out: some have answered, some are still at their action.
        Succession{"killed_during_a_regroup",
                   {"kill 1:1 at F of iteration 20", "kill coordinator at regroup of iteration 19"},
                   2,
                   1},
        Succession{"killed_during_a_regroup_and_another_worker_dies",
                   {"kill 1:1 at F of iteration 20", "kill coordinator at regroup of iteration 19",
                    "kill 2:0 at regroup of iteration 20"},
                   2,
                   2}),
    [](const auto& info) { return info.param.name; });

// It gives no sign of life: it is killed, for two would write the same files, and another one takes
// over and brings the job through a death.
TEST(Succession, AFrozenCoordinatorIsKilledAndReplaced) {
  JobOptions options = ThreeByTwo(kLong, {"slow x20 0:0 at F of iteration 1"});
  options.failure_timeout_ms = 500;
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(3)) << job.Output();
  const pid_t frozen = Leaders(job).at(0);
  const ProcessIdentity frozen_process = Identify(frozen);
  ASSERT_EQ(kill(frozen, SIGSTOP), 0);
  ASSERT_TRUE(job.AwaitEvents("leader", 2)) << job.Output();
  EXPECT_FALSE(IsAlive(frozen_process));
  ASSERT_TRUE(job.AwaitEvents("resumed", 2)) << job.Output();
  ASSERT_EQ(kill(job.WorkerPids().at("1:1"), SIGKILL), 0);
  ASSERT_TRUE(job.AwaitEvents("resumed", 3)) << job.Output();
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  EXPECT_NE(job.Output().find("gives no sign of life and is killed"), std::string::npos)
      << job.Output();
  ExpectUnharmedResults(job, ThreeByTwo(kLong, {}), 1);
  ExpectWholeFiles(job, options);
}

// Asleep for about as long as its launcher is patient, it may wake at any moment of its end.
TEST(Succession, ACoordinatorThatWakesAtItsEndWritesNothingTwice) {
  for (const int stopped_ms : {480, 500, 520, 540, 580}) {
    JobOptions options = ThreeByTwo(
        kLong, {"slow x20 0:0 at F of iteration 1",
                fmt::format("stop coordinator at F of iteration 20 for {}s", stopped_ms / 1e3)});
    options.failure_timeout_ms = 500;
    Job job(options);
    ASSERT_EQ(job.Run(), 0) << job.Output();
    ExpectWholeFiles(job, options);
  }
}

// Three coordinators, of which one leads by a lease in the store; it is killed, and so is its
// successor, and a worker right after the first. The dead are replaced as candidates.
void RunWithThreeCoordinators(const std::string& store) {
  JobOptions options =
      ThreeByTwo(300, {"kill coordinator at F of iteration 5", "kill 1:1 at F of iteration 6",
                       "kill coordinator at F of iteration 150"});
  options.failure_timeout_ms = 1000;
  options.arguments = {"--set", "launch.coordinators=3", "--set", "resilience.store=" + store};
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(Leaders(job).size(), 3U) << job.Output();
  const JobOptions reference = ThreeByTwo(300, {});
  ExpectUnharmedResults(job, reference, 1);
  ExpectWholeFiles(job, options);
}

TEST(Succession, OneOfThreeCoordinatorsLeadsOverAFile) { RunWithThreeCoordinators("embedded"); }

class OverEtcd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::IsInstalled()) GTEST_SKIP() << EtcdServer::kMissing;
    std::string name = (std::filesystem::temp_directory_path() / "recycle-etcd-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

TEST_F(OverEtcd, OneOfThreeCoordinatorsLeads) {
  const EtcdServer server(folder_);
  RunWithThreeCoordinators("etcd://" + server.endpoint());
}

// Each of the three members is away for a while, so its leader is killed at least once; meanwhile
// workers die, and the coordinator that leads.
TEST_F(OverEtcd, MembersDieInTurnAndDecisionsAreStillStored) {
  EtcdCluster etcd(folder_);
  JobOptions options = ThreeByTwo(300, {"slow x20 0:0 at F of iteration 1"});
  options.arguments = {"--set", "launch.coordinators=3", "--set",
                       "resilience.store=etcd://" + etcd.endpoints()};
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(3)) << job.Output();
  etcd.Kill(0);
  ASSERT_EQ(kill(job.WorkerPids().at("1:1"), SIGKILL), 0);
  ASSERT_TRUE(job.AwaitEvents("resumed", 2)) << job.Output();
  etcd.Restart(0);
  etcd.Kill(1);
  ASSERT_EQ(kill(Leaders(job).back(), SIGKILL), 0);
  ASSERT_TRUE(job.AwaitEvents("resumed", 3)) << job.Output();
  etcd.Restart(1);
  etcd.Kill(2);
  ASSERT_EQ(kill(job.WorkerPids().at("2:0"), SIGKILL), 0);
  ASSERT_TRUE(job.AwaitEvents("resumed", 4)) << job.Output();
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  // An etcd that elects its leader for longer than a lease costs the coordinator its lead, too.
  EXPECT_GE(Leaders(job).size(), 2U) << job.Output();
  ExpectUnharmedResults(job, ThreeByTwo(300, {}), 2);
  ExpectWholeFiles(job, options);
}

TEST_F(OverEtcd, SpeaksTlsToOneThatAsksForCertificates) {
  const TestAuthority authority;
  const TestAuthority::Signed server = authority.Sign("127.0.0.1");
  const TestAuthority::Signed client = authority.Sign("127.0.0.1");
  const std::string ca = Write("ca.pem", authority.pem());
  const EtcdServer etcd(folder_, EtcdServer::Tls{.ca = ca,
                                                 .certificate = Write("s.pem", server.certificate),
                                                 .key = Write("s.key", server.key)});
  JobOptions options = ThreeByTwo(60, {"kill 1:1 at F of iteration 11"});
  options.arguments = {"--set", "resilience.store=etcd://" + etcd.endpoint()};
  Job in_the_clear(options);
  EXPECT_EQ(in_the_clear.Run(), 4) << in_the_clear.Output();
  options.arguments.insert(options.arguments.end(), {"--set", "security.etcd_ca_file=" + ca});
  Job without_certificate(options);
  EXPECT_EQ(without_certificate.Run(), 4) << without_certificate.Output();
  const std::string certificate = Write("c.pem", client.certificate);
  options.arguments.insert(options.arguments.end(),
                           {"--set", "security.etcd_certificate_file=" + certificate, "--set",
                            "security.etcd_key_file=" + Write("c.key", client.key)});
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  ExpectUnharmedResults(job, ThreeByTwo(60, {}), 1);
}

// For longer than a lease: the leader leaves, nobody can follow it before the etcd is back.
TEST_F(OverEtcd, AnEtcdThatIsAwayEndsNobodysTraining) {
  const EtcdServer server(folder_);
  JobOptions options = ThreeByTwo(300, {});
  options.arguments = {"--set", "launch.coordinators=3", "--set",
                       "resilience.store=etcd://" + server.endpoint()};
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(3)) << job.Output();
  kill(server.pid(), SIGSTOP);
  EXPECT_TRUE(Eventually(std::chrono::seconds(30), [&] {
    return job.Output().find("another one leads, and left") != std::string::npos;
  }));
  kill(server.pid(), SIGCONT);
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  EXPECT_GE(Leaders(job).size(), 2U) << job.Output();
  ExpectUnharmedResults(job, ThreeByTwo(300, {}), 0);
  ExpectWholeFiles(job, options);
}

TEST(Succession, AShortStopChangesNothing) {
  const JobOptions options = ThreeByTwo(60, {"stop coordinator at F of iteration 5 for 0.3s"});
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(Leaders(job).size(), 1U);
  EXPECT_EQ(job.Events("generation").size(), 1U) << job.Output();
  ExpectUnharmedResults(job, options, 0);
  ExpectWholeFiles(job, options);
}

// The store is away when a worker dies: training goes on as far as it can, the decision waits until
// it can be stored, and nobody takes the coordinator for dead.
TEST(Succession, AStoreThatIsAwayForAWhileDelaysADecisionAndNothingElse) {
  const JobOptions options =
      ThreeByTwo(60, {"stop store at F of iteration 10 for 1s", "kill 1:1 at F of iteration 11"});
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(Leaders(job).size(), 1U);
  const std::vector<nlohmann::json> faults = job.Events("fault_injected");
  ASSERT_EQ(faults.size(), 2U) << job.Output();
  const double out = faults.at(0).at("time");
  const double decided = job.Events("generation").at(1).at("time");
  EXPECT_GE(decided - out, 0.9) << job.Output();
  EXPECT_LT(job.Events("failure_detected").at(0).at("signal_ms"), 500);
  ExpectUnharmedResults(job, options, 1);
  ExpectWholeFiles(job, options);
}

// The next coordinator begins while the store is still away.
TEST(Succession, ACoordinatorThatDiesWhileTheStoreIsAwayIsFollowed) {
  const JobOptions options =
      ThreeByTwo(kLong, {"stop store at F of iteration 5 for 1s",
                         "kill coordinator at F of iteration 6", "kill 1:1 at F of iteration 20"});
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  EXPECT_EQ(Leaders(job).size(), 2U);
  EXPECT_EQ(job.Events("fault_injected").size(), 3U) << job.Output();
  ExpectUnharmedResults(job, options, 1);
  ExpectWholeFiles(job, options);
}

TEST(Succession, AStopRequestReachesTheNextCoordinator) {
  const JobOptions options = ThreeByTwo(100000, {"kill coordinator at F of iteration 5"});
  Job job(options);
  job.Start();
  ASSERT_TRUE(job.AwaitEvents("resumed", 2)) << job.Output();
  ASSERT_EQ(kill(job.pid(), SIGTERM), 0);
  EXPECT_EQ(job.Wait(), 143) << job.Output();
  EXPECT_EQ(job.Events("job_finished").at(0).at("how"), "stopped");
}

TEST(Succession, ACoordinatorThatDiesAgainAndAgainEndsTheJob) {
  const std::vector<std::string> inject(6, "kill coordinator at store");
  Job job(ThreeByTwo(100000, inject));
  EXPECT_EQ(job.Run(), 4) << job.Output();
  EXPECT_NE(job.Output().find("the coordinator died 6 times within 60 s: giving up"),
            std::string::npos)
      << job.Output();
}

}  // namespace
}  // namespace recycle::testing
