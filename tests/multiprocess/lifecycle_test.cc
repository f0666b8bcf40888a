// Starting, stopping, and leaving nothing behind; bad input; a full disk; several jobs at once.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "job.h"

namespace recycle::testing {
namespace {

JobOptions Endless() {
  return {.data = 3, .pipeline = 2, .micro_batches = 2, .iterations = 1'000'000, .agents = 3};
}

bool AllGone(const std::vector<ProcessIdentity>& processes) {
  return std::none_of(processes.begin(), processes.end(), IsAlive);
}

std::string Alive(const std::vector<ProcessIdentity>& processes) {
  std::string text;
  for (const ProcessIdentity& process : processes) {
    if (IsAlive(process)) text += fmt::format("\n{} {}", process.pid, CommandLine(process.pid));
  }
  return text;
}

class A10LauncherEnds : public ::testing::TestWithParam<int> {};

TEST_P(A10LauncherEnds, NothingOfTheJobIsLeft) {
  const int signal = GetParam();
  const std::vector<std::string> shared_memory_before = SharedMemoryFiles();
  Job job(Endless());
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(3)) << job.Output();
  // Frozen executors must go too.
  const pid_t frozen = job.WorkerPids().at("2:0");
  const std::vector<ProcessIdentity> processes = Descendants(job.pid());
  ASSERT_GE(processes.size(), 1U + 1U + 3U + 3U + 6U);  // launcher, coordinator, agents, spawners
  if (signal == SIGKILL) {
    ASSERT_EQ(kill(frozen, SIGSTOP), 0);
  }
  ASSERT_EQ(kill(job.pid(), signal), 0);
  const int code = job.Wait();
  EXPECT_EQ(code, 128 + signal) << job.Output();  // 143, 130, 137
  EXPECT_TRUE(Eventually(std::chrono::seconds(5), [&] { return AllGone(processes); }))
      << "left:" << Alive(processes);
  EXPECT_EQ(SharedMemoryFiles(), shared_memory_before);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(job.folder())) {
    EXPECT_FALSE(entry.is_socket()) << entry.path();
  }
  if (signal != SIGKILL) {  // the running iteration was finished and everything written
    EXPECT_EQ(job.Events("job_finished").size(), 1U);
    EXPECT_EQ(job.Summary().at("iterations").get<std::size_t>(), job.Losses().size());
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, A10LauncherEnds,
                         ::testing::Values(SIGKILL, SIGTERM, SIGINT, SIGHUP),
                         [](const auto& info) { return fmt::format("signal_{}", info.param); });

TEST(Lifecycle, ASecondSignalEndsAtOnce) {
  Job job(Endless());
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(2)) << job.Output();
  const std::vector<ProcessIdentity> processes = Descendants(job.pid());
  // A frozen worker keeps the running iteration from ending.
  ASSERT_EQ(kill(job.WorkerPids().at("0:0"), SIGSTOP), 0);
  ASSERT_EQ(kill(job.pid(), SIGTERM), 0);
  ASSERT_TRUE(Eventually(std::chrono::seconds(10),
                         [&] { return job.Output().find("second signal") != std::string::npos; }))
      << "the launcher says that a second signal ends at once:\n"
      << job.Output();
  ASSERT_EQ(kill(job.pid(), SIGTERM), 0);
  EXPECT_EQ(job.Wait(std::chrono::seconds(5)), 143);
  EXPECT_TRUE(Eventually(std::chrono::seconds(5), [&] { return AllGone(processes); }))
      << "left:" << Alive(processes);
}

// Seconds from job_started until all six executors have joined.
double StartTime() {
  Job job({.data = 3, .pipeline = 2, .iterations = 1});
  EXPECT_EQ(job.Run(), 0) << job.Output();
  const std::vector<nlohmann::json> joined = job.Events("worker_joined");
  EXPECT_EQ(joined.size(), 6U);
  double last = 0;
  for (const nlohmann::json& event : joined) last = std::max(last, event.at("time").get<double>());
  return last - job.Events("job_started").at(0).at("time").get<double>();
}

TEST(Lifecycle, SixProcessesStartInUnderASecond) {
  // What the program needs, not what a busy machine adds: the best of a few.
  double best = StartTime();
  for (int attempt = 1; attempt < 8 && best >= 1.0; ++attempt) best = std::min(best, StartTime());
  fmt::print("job_started -> all six joined: {:.0f} ms\n", best * 1e3);
  EXPECT_LT(best, 1.0);
}

TEST(Lifecycle, AFaultThatDoesNotFireIsExitCode1) {
  Job job({.data = 2,
           .pipeline = 2,
           .iterations = 3,
           .inject = {"kill 1:1 at F of iteration 2 on 0F0.0"}});  // stage 0 never runs on 1:1
  EXPECT_EQ(job.Run(), 1) << job.Output();
  EXPECT_EQ(job.Events("fault_missed").size(), 1U);
}

TEST(Lifecycle, TrainingGoesOnWhenTheDiskIsFull) {
  Job job({.data = 2,
           .pipeline = 2,
           .iterations = 5,
           .inject = {"diskfull coordinator at step of iteration 2",
                      "diskfull 1:1 at F of iteration 3"}});
  EXPECT_EQ(job.Run(), 0) << job.Output();
  EXPECT_NE(job.Output().find("disk full"), std::string::npos) << job.Output();
  EXPECT_LT(job.Losses().size(), 5U) << "the fault did nothing";
}

TEST(Lifecycle, TrainingGoesOnWhenTheFileSystemIsFull) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small file system";
  std::string pattern = (std::filesystem::temp_directory_path() / "recycle-full-XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=256k") != 0) {
    std::filesystem::remove(folder);
    GTEST_SKIP() << "mount is not permitted here";
  }
  {
    Job job({.data = 2, .pipeline = 2, .iterations = 400, .run_folder = folder + "/run"});
    job.Start();
    EXPECT_EQ(job.Wait(), 0) << job.Output();
    EXPECT_NE(job.Output().find("disk full"), std::string::npos) << job.Output();
  }
  EXPECT_EQ(umount2(folder.c_str(), MNT_DETACH), 0);
  std::filesystem::remove(folder);
}

// --- bad input -----------------------------------------------------------------------------------

struct BadInput {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> says;  // words of the one sentence
};

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, ExitCode2AndOneSentence) {
  Job job({.data = 2, .pipeline = 2, .iterations = 2, .arguments = GetParam().arguments});
  EXPECT_EQ(job.Run(), 2) << job.Output();
  const std::string output = job.Output();
  for (const std::string& word : GetParam().says) {
    EXPECT_NE(output.find(word), std::string::npos) << word << " is not in: " << output;
  }
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
  EXPECT_FALSE(std::filesystem::exists(job.run_folder() / "metrics.jsonl"));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadInputs,
    ::testing::Values(
        BadInput{"unknown_key", {"--set", "model.layer=4"}, {"model.layer", "model.layers"}},
        BadInput{"wrong_type", {"--set", "model.layers=four"}, {"model.layers", "four"}},
        BadInput{"no_micro_batches",
                 {"--set", "batch.micro_batches=0"},
                 {"batch.micro_batches", "0", "1"}},
        BadInput{"heads", {"--set", "model.heads=3"}, {"model.heads", "3", "16"}},
        BadInput{"more_stages_than_layers",
                 {"--set", "parallel.pipeline=5"},
                 {"parallel.pipeline", "5", "4"}},
        BadInput{
            "missing_corpus", {"--set", "data.text=nowhere.txt"}, {"data.text", "nowhere.txt"}},
        BadInput{"vocabulary_of_bytes",
                 {"--set", "data.vocabulary=100"},
                 {"data.vocabulary", "100", "256"}},
        BadInput{"resume_of_nothing", {"--resume"}, {"no run folder"}},
        BadInput{"unknown_fault", {"--inject", "kill 1:1 at G"}, {"G", "F"}},
        BadInput{"fault_out_of_range", {"--inject", "kill 5:1 at F"}, {"5:1"}},
        BadInput{"fault_of_no_use", {"--inject", "corrupt stage 1 at W"}, {"one worker"}},
        BadInput{"missing_plan", {"--plan", "nowhere.json"}, {"nowhere.json"}},
        BadInput{"unknown_option", {"--iterations", "5"}, {"--iterations"}}),
    [](const auto& info) { return info.param.name; });

TEST(Lifecycle, TooFewOpenFilesAreExitCode2AndOneSentence) {
  Job job({.iterations = 1, .before_exec = [] {
             const rlimit few{.rlim_cur = 30, .rlim_max = 30};
             setrlimit(RLIMIT_NOFILE, &few);
           }});
  EXPECT_EQ(job.Run(), 2) << job.Output();
  EXPECT_NE(job.Output().find("ulimit -n 68"), std::string::npos) << job.Output();
  EXPECT_FALSE(std::filesystem::exists(job.run_folder()));
}

TEST(Lifecycle, AnUnreadableConfigNamesLineAndColumn) {
  Job job({.iterations = 1});
  std::ofstream(job.folder() / "job.yaml") << "model: {layers: 4\ntrain: ]\n";
  EXPECT_EQ(job.Run(), 2);
  EXPECT_NE(job.Output().find("line 2"), std::string::npos) << job.Output();
}

TEST(Lifecycle, APlanCutOffInTheMiddleIsExitCode2) {
  Job job({.data = 2, .pipeline = 2, .iterations = 1, .arguments = {"--plan", "cut.json"}});
  // Relative to the config's folder, as every path on the command line is to the caller's.
  std::ofstream(job.folder() / "cut.json")
      << "{\"format\": \"recycle-plan/1\", \"parallel\": {\"da";
  EXPECT_EQ(job.Run(), 2) << job.Output();
  EXPECT_NE(job.Output().find("cut.json"), std::string::npos) << job.Output();
}

TEST(Lifecycle, AnUnwritableRunFolderIsExitCode2) {
  Job job({.iterations = 1, .run_folder = "/proc/run"});
  EXPECT_EQ(job.Run(), 2);
  EXPECT_NE(job.Output().find("/proc/run"), std::string::npos) << job.Output();
}

TEST(Lifecycle, ARunFolderThatIsNotEmptyIsRefused) {
  Job job({.iterations = 1});
  std::filesystem::create_directories(job.run_folder());
  std::ofstream(job.run_folder() / "precious.txt") << "kept";
  EXPECT_EQ(job.Run(), 2);
  EXPECT_NE(job.Output().find(job.run_folder().string()), std::string::npos) << job.Output();
  EXPECT_TRUE(std::filesystem::exists(job.run_folder() / "precious.txt"));
}

}  // namespace
}  // namespace recycle::testing
