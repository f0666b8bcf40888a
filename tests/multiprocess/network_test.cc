// A job over several hosts: network namespaces of this machine, each with an interface on a bridge
// of their own, joined by nothing but the network and the file system. Cables are pulled and put
// back. Docs: docs/CLI.md (`recycle agent`), docs/RECOVERY.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job.h"
#include "unharmed.h"

namespace recycle::testing {
namespace {

// Host n has the address 10.77.0.(n + 1). Everything goes with the object.
class Hosts {
 public:
  explicit Hosts(int count) : name_(fmt::format("rc{}", getpid())) {
    ok_ = Ip(fmt::format("link add {} type bridge", name_)) && Ip("link set " + name_ + " up");
    for (int host = 0; ok_ && host < count; ++host) {
      const std::string space = Space(host);
      ok_ = Ip("netns add " + space);
      if (!ok_) break;
      ++count_;
      ok_ = Ip(fmt::format("-n {} link set lo up", space)) &&
            Ip(fmt::format("link add {} type veth peer name eth0 netns {}", Cable(host), space)) &&
            Ip(fmt::format("link set {} master {} up", Cable(host), name_)) &&
            Ip(fmt::format("-n {} addr add {}/24 dev eth0", space, Address(host))) &&
            Ip(fmt::format("-n {} link set eth0 up", space));
    }
  }
  ~Hosts() {
    for (int host = 0; host < count_; ++host) Ip("netns del " + Space(host));  // and its cable
    Ip("link del " + name_);
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool ok() const { return ok_; }
  static std::string Address(int host) { return fmt::format("10.77.0.{}", host + 1); }
  // The calling process moves to the host; async-signal-safe.
  std::function<void()> Enter(int host) const {
    return [path = "/run/netns/" + Space(host)] {
      const int space = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (setns(space, CLONE_NEWNET) != 0) _exit(126);
      close(space);
    };
  }
  // Nobody on other hosts hears of it: packets are lost, connections stay.
  void PullCable(int host) const { Ip("link set " + Cable(host) + " down"); }
  void PutCableBack(int host) const { Ip("link set " + Cable(host) + " up"); }

 private:
  static bool Ip(const std::string& words) {
    return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0;
  }
  std::string Space(int host) const { return fmt::format("{}-{}", name_, host); }
  std::string Cable(int host) const { return fmt::format("{}v{}", name_, host); }

  const std::string name_;
  int count_ = 0;
  bool ok_ = false;
};

// `recycle WORDS...` on a host; ends with the object.
class Program {
 public:
  Program(const std::function<void()>& enter, std::vector<std::string> words) {
    words.insert(words.begin(), RECYCLE_PROGRAM);
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    enter();
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ~Program() {
    if (ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // Its exit code, or 128 + signal; -1 if it does not end.
  int Wait() {
    int status = 0;
    ended_ = Eventually(std::chrono::seconds(30),
                        [&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended_) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  bool ended_ = false;
};

constexpr int kIterations = 300;

// The launcher with its coordinator on host 0, agent n with pipeline n on host n + 1.
class FourHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may make network namespaces";
    hosts_ = std::make_unique<Hosts>(4);
    if (!hosts_->ok()) {
      GTEST_SKIP() << "`ip` (Debian's package iproute2) cannot make namespaces, a bridge and veth "
                      "pairs here";
    }
  }

  void Start(int failure_timeout_ms) {
    // Slow, so that there is time for all this.
    JobOptions options = ThreeByTwo(kIterations, {"slow x20 0:0 at F of iteration 1"});
    options.agents = 3;
    options.failure_timeout_ms = failure_timeout_ms;
    options.before_exec = hosts_->Enter(0);
    job_ = std::make_unique<Job>(options);
    const std::filesystem::path token = job_->folder() / "token";
    std::ofstream(token) << "c2VjcmV0LW9mLXRoZS1qb2ItMDEyMzQ1Njc4OWFiY2Q=\n";
    chmod(token.c_str(), 0600);
    job_->AddArguments(
        {"--set", "launch.listen=" + Hosts::Address(0), "--set", "launch.start_agents=false",
         "--set", "security.token_file=" + token.string(), "--set", "resilience.respawn=0.2"});
    job_->Start();
    ASSERT_TRUE(job_->AwaitOutput("are to be started on their hosts")) << job_->Output();
    for (int agent = 0; agent < 3; ++agent) {
      agents_.push_back(Run(agent + 1, {"agent", job_->run_folder(), std::to_string(agent),
                                        "--listen", Hosts::Address(agent + 1)}));
    }
    ASSERT_TRUE(job_->AwaitIteration(3)) << job_->Output();
  }

  std::unique_ptr<Program> Run(int host, const std::vector<std::string>& words) const {
    return std::make_unique<Program>(hosts_->Enter(host), words);
  }
  bool AwaitFurtherIterations(int count) const {
    return job_->AwaitIteration(static_cast<int>(job_->Losses().size()) + count);
  }
  void ExpectEndLikeUnharmed(int lost_workers) {
    ASSERT_EQ(job_->Wait(), 0) << job_->Output();
    ExpectUnharmedNumbers(*job_, ThreeByTwo(kIterations, {}));
    EXPECT_EQ(std::ssize(job_->Events("failure_detected")), lost_workers);
  }

  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<Job> job_;
  std::vector<std::unique_ptr<Program>> agents_;
};

// Two pipelines go on. The third has all its stages and is cut off from everybody else: its
// processes live, and get nowhere; back in the network they find themselves removed, are started
// anew, and come back.
TEST_F(FourHosts, OneThatIsCutOffGetsNowhereAndComesBack) {
  ASSERT_NO_FATAL_FAILURE(Start(/*failure_timeout_ms=*/1000));
  const std::map<std::string, pid_t> first = job_->WorkerPids();
  hosts_->PullCable(2);
  ASSERT_TRUE(job_->AwaitEvents("failure_detected", 2)) << job_->Output();
  ASSERT_TRUE(job_->AwaitEvents("resumed", 2)) << job_->Output();
  ASSERT_TRUE(AwaitFurtherIterations(5)) << job_->Output();
  for (const char* const worker : {"1:0", "1:1"}) {
    EXPECT_TRUE(IsAlive(Identify(first.at(worker)))) << worker;
  }
  hosts_->PutCableBack(2);
  ASSERT_TRUE(job_->AwaitEvents("rejoined", 2)) << job_->Output();
  ExpectEndLikeUnharmed(2);
  for (const nlohmann::json& event : job_->Events("executor_exited")) {
    if (event.at("pid") != first.at("1:0") && event.at("pid") != first.at("1:1")) continue;
    EXPECT_EQ(event.at("exit_code"), 75) << event;
  }
  int back_in = 0;
  for (const nlohmann::json& event : job_->Events("generation")) {
    if (event.at("live") == 6) back_in = event.at("generation");
  }
  for (const auto& [work, executions] : Executions(*job_)) {
    for (const Execution& execution : executions) {
      if (execution.worker.pipeline != PipelineId(1)) continue;
      EXPECT_TRUE(execution.generation == 1 || execution.generation + 1 >= back_in)
          << work.part << " of iteration " << work.iteration << " in generation "
          << execution.generation;
    }
  }
  for (const auto& agent : agents_) EXPECT_EQ(agent->Wait(), 0) << "the job is over";
}

TEST_F(FourHosts, AShortCutIsWaitedOut) {
  ASSERT_NO_FATAL_FAILURE(Start(/*failure_timeout_ms=*/5000));
  hosts_->PullCable(2);
  usleep(300'000);  // the length of the fault
  hosts_->PutCableBack(2);
  ExpectEndLikeUnharmed(0);
  EXPECT_EQ(job_->Events("generation").size(), 1U) << job_->Output();
}

// A host dies with its agent; another process of another host takes one of its places.
TEST_F(FourHosts, AWorkerJoinsFromAnotherHost) {
  ASSERT_NO_FATAL_FAILURE(Start(/*failure_timeout_ms=*/2000));
  ASSERT_EQ(kill(agents_.at(2)->pid(), SIGKILL), 0);
  ASSERT_TRUE(job_->AwaitEvents("failure_detected", 2)) << job_->Output();
  ASSERT_TRUE(AwaitFurtherIterations(1)) << job_->Output();
  const auto joined = Run(3, {"join", job_->run_folder(), "2:1", "--listen", Hosts::Address(3)});
  ASSERT_TRUE(job_->AwaitEvents("rejoined", 1)) << job_->Output();
  ExpectEndLikeUnharmed(2);
  EXPECT_EQ(joined->Wait(), 0);
}

}  // namespace
}  // namespace recycle::testing
