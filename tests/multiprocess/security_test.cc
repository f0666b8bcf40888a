// Tokens and TLS around real jobs: training goes on through deaths with them, strangers are refused
// and counted, the secret shows up nowhere. Docs: docs/SECURITY.md.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job.h"
#include "recycle/testing/certificates.h"
#include "unharmed.h"

namespace recycle::testing {
namespace {

using ::testing::HasSubstr;

// 32 bytes in base64, as users make them.
constexpr char kToken[] = "c2VjcmV0LW9mLXRoZS1qb2ItMDEyMzQ1Njc4OWFiY2Q=";
constexpr char kNextToken[] = "dGhlLW5leHQtc2VjcmV0LTAxMjM0NTY3ODlhYmNkZWY=";

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// For its owner alone; replaced as a whole, as a careful user does.
std::string WriteSecret(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path next = path.string() + ".next";
  std::ofstream(next) << text << "\n";
  chmod(next.c_str(), 0600);
  std::filesystem::rename(next, path);
  return path.string();
}

struct Answer {
  int code = 0;
  std::string text;  // both streams
};

Answer Recycle(const std::string& words) {
  FILE* const pipe = popen(fmt::format("{} {} 2>&1", RECYCLE_PROGRAM, words).c_str(), "r");
  Answer answer;
  char buffer[4096];
  for (std::size_t count = 0; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    answer.text.append(buffer, count);
  }
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

// Names of the files below `folder`, and of the job's processes, in which `secret` shows up.
std::vector<std::string> Leaks(const std::filesystem::path& folder, pid_t launcher,
                               const std::string& secret) {
  std::vector<std::string> leaks;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (ReadFile(entry.path()).find(secret) != std::string::npos) leaks.push_back(entry.path());
  }
  for (const ProcessIdentity& process : Descendants(launcher)) {
    for (const char* const file : {"cmdline", "environ"}) {
      const std::string path = fmt::format("/proc/{}/{}", process.pid, file);
      if (ReadFile(path).find(secret) != std::string::npos) leaks.push_back(path);
    }
  }
  return leaks;
}

std::string LeaderAddress(const Job& job) {
  const std::string text = ReadFile(job.run_folder() / "coordinator.address");
  return text.substr(0, text.find('\n'));
}

TEST(Security, ATokenIsAskedForAndShowsUpNowhere) {
  const JobOptions options =
      ThreeByTwo(400, {"kill 1:1 at F of iteration 8", "kill coordinator at F of iteration 20"});
  Job job(options);
  const std::string file = WriteSecret(job.folder() / "token", kToken);
  job.AddArguments({"--set", "security.token_file=" + file});
  job.Start();
  ASSERT_TRUE(job.AwaitEvents("leader", 2)) << job.Output();
  ASSERT_TRUE(job.AwaitIteration(40)) << job.Output();

  const std::string address = LeaderAddress(job);
  const Answer stranger = Recycle("status --address " + address);
  EXPECT_EQ(stranger.code, 2) << stranger.text;
  EXPECT_THAT(stranger.text, HasSubstr("this job asks for a token, and none was shown"));
  const std::string run_dir = job.run_folder().string();
  EXPECT_EQ(Recycle("status --address " + address + " --job " + run_dir + "/config.yaml").code, 0);
  ASSERT_TRUE(job.AwaitEvents("calls_refused", 1)) << job.Output();
  const nlohmann::json refused = job.Events("calls_refused").at(0);
  EXPECT_EQ(refused.at("count"), 1);
  EXPECT_THAT(refused.at("last").get<std::string>(), HasSubstr("Status from ipv4:127.0.0.1:"));
  const Answer status = Recycle("status --json --run-dir " + run_dir);
  ASSERT_EQ(status.code, 0) << status.text;
  EXPECT_EQ(nlohmann::json::parse(status.text).at("refused_calls"), 1);

  EXPECT_THAT(Leaks(job.run_folder(), job.pid(), kToken), ::testing::IsEmpty());
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  EXPECT_THAT(Leaks(job.run_folder(), job.pid(), kToken), ::testing::IsEmpty());
  EXPECT_EQ(job.Output().find(kToken), std::string::npos);
  ExpectUnharmedResults(job, options, 1);
}

// docs/SECURITY.md, "Replacing a token": the file first, then the coordinator.
TEST(Security, ATokenIsReplacedWhileTheJobRuns) {
  const JobOptions options = ThreeByTwo(600, {});
  Job job(options);
  const std::string file = WriteSecret(job.folder() / "token", kToken);
  job.AddArguments({"--set", "security.token_file=" + file});
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(5)) << job.Output();
  WriteSecret(file, kNextToken);
  EXPECT_EQ(Recycle("status --run-dir " + job.run_folder().string()).code, 2)
      << "the coordinator still asks for the old one";
  ASSERT_EQ(kill(job.Events("leader").at(0).at("pid").get<pid_t>(), SIGKILL), 0);
  ASSERT_TRUE(job.AwaitEvents("leader", 2)) << job.Output();
  ASSERT_TRUE(job.AwaitEvents("resumed", 2)) << job.Output();
  const Answer status = Recycle("status --run-dir " + job.run_folder().string());
  EXPECT_EQ(status.code, 0) << status.text;
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  ExpectUnharmedResults(job, options, 0);
}

// An address of this machine that is not loopback; nothing if there is none.
std::optional<std::string> OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return std::nullopt;
  std::optional<std::string> found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    const auto* const address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
    if (!std::string(text).starts_with("127.")) found = text;
  }
  freeifaddrs(all);
  return found;
}

TEST(Security, AJobListensWhereItIsToldToWithATokenAndTls) {
  const std::optional<std::string> address = OwnAddress();
  if (!address) GTEST_SKIP() << "this machine has no IPv4 address but loopback";
  const JobOptions options = ThreeByTwo(150, {"kill 1:1 at F of iteration 8"});
  Job job(options);
  const TestAuthority authority;
  const TestAuthority::Signed own = authority.Sign(*address);
  job.AddArguments(
      {"--set", "launch.listen=" + *address, "--set",
       "security.token_file=" + WriteSecret(job.folder() / "token", kToken), "--set",
       "security.ca_file=" + WriteSecret(job.folder() / "ca.pem", authority.pem()), "--set",
       "security.certificate_file=" + WriteSecret(job.folder() / "own.pem", own.certificate),
       "--set", "security.key_file=" + WriteSecret(job.folder() / "own.key", own.key), "--set",
       "security.mutual_tls=true"});
  job.Start();
  ASSERT_TRUE(job.AwaitIteration(3)) << job.Output();
  std::vector<pid_t> pids;
  for (const ProcessIdentity& process : Descendants(job.pid())) pids.push_back(process.pid);
  const std::vector<std::string> listening = ListeningAddresses(pids);
  EXPECT_EQ(std::set<std::string>(listening.begin(), listening.end()),
            std::set<std::string>{*address});
  const Answer status = Recycle("status --run-dir " + job.run_folder().string());
  EXPECT_EQ(status.code, 0) << status.text;
  EXPECT_EQ(Recycle("status --address " + LeaderAddress(job)).code, 4) << "in the clear";
  EXPECT_THAT(Leaks(job.run_folder(), job.pid(), kToken), ::testing::IsEmpty());
  ASSERT_EQ(job.Wait(), 0) << job.Output();
  ExpectUnharmedResults(job, options, 1);
}

TEST(Security, NothingStartsThatOthersCouldReachWithoutAToken) {
  for (const auto& [setting, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"launch.listen=192.0.2.77", "needs security.token_file"},
           {"launch.listen=0.0.0.0", "must be a numeric address of this machine"},
           {"security.token_file=/nowhere/token", "head -c 32 /dev/urandom"}}) {
    Job job(ThreeByTwo(4, {}));
    job.AddArguments({"--set", setting});
    EXPECT_EQ(job.Run(), 2) << job.Output();
    EXPECT_THAT(job.Output(), HasSubstr(complaint));
    EXPECT_FALSE(std::filesystem::exists(job.run_folder() / "coordinator.address"));
  }
}

}  // namespace
}  // namespace recycle::testing
