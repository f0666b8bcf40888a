// What a newcomer meets first: ./recycle without packages, without root, without arguments.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

struct Result {
  int code = -1;
  std::string output;  // both streams
};

Result Shell(const std::string& command) {
  Result result;
  FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) result.output += buffer.data();
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// A copy of the front door in a folder where no package counts as installed.
class BareMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "recycle-bare-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    const fs::path root = RECYCLE_SOURCE_DIR;
    fs::copy(root / "recycle", folder_ / "recycle");
    fs::copy(root / "test", folder_ / "test");
    fs::copy(root / "tools", folder_ / "tools", fs::copy_options::recursive);
    fs::create_directory(folder_ / "bin");
    std::ofstream(folder_ / "bin/dpkg-query") << "#!/bin/sh\nexit 1\n";
    fs::permissions(folder_ / "bin/dpkg-query", fs::perms::all);
    fs::permissions(folder_, fs::perms::all);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs `words` in the folder as an ordinary user.
  Result AsUser(const std::string& words) const {
    const std::string drop =
        geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
    return Shell(
        fmt::format("cd {0} && {1}env PATH={0}/bin:$PATH ./{2}", folder_.string(), drop, words));
  }

  fs::path folder_;
};

TEST_F(BareMachine, WithoutRootTheOneAptLineIsPrintedAndTheExitCodeIs2) {
  for (const char* words : {"recycle train examples/first-light.yaml", "test"}) {
    const Result result = AsUser(words);
    EXPECT_EQ(result.code, 2) << result.output;
    const std::string line = "apt-get install -y --no-install-recommends ";
    const std::size_t first = result.output.find(line);
    ASSERT_NE(first, std::string::npos) << result.output;
    EXPECT_EQ(result.output.find(line, first + 1), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("libtorch-dev"), std::string::npos) << result.output;
  }
}

const std::string kProgram = std::string(RECYCLE_BINARY_DIR) + "/bin/recycle";

TEST(Newcomer, HelpNamesEveryCommandAndAnExample) {
  const Result help = Shell(kProgram + " --help");
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"train", "plan", "check", "status", "config", "first-light.yaml"}) {
    EXPECT_NE(help.output.find(word), std::string::npos) << word << ":\n" << help.output;
  }
  EXPECT_EQ(Shell(kProgram + " --version").code, 0);
  const Result nothing = Shell(kProgram);
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.output.find("recycle --help"), std::string::npos) << nothing.output;
}

TEST(Newcomer, AMistypedCommandNamesTheNearestOne) {
  const Result result = Shell(kProgram + " trian job.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.output.find("train"), std::string::npos) << result.output;
}

TEST(Newcomer, TheProgramLinksNoLibtorchAndTheExecutorDoes) {
  EXPECT_EQ(Shell("ldd " + kProgram).output.find("libtorch"), std::string::npos);
  const std::string executor = fmt::format("{}/bin/recycle-executor", RECYCLE_BINARY_DIR);
  if (!fs::exists(executor)) GTEST_SKIP() << "built without libtorch";
  EXPECT_NE(Shell("ldd " + executor).output.find("libtorch"), std::string::npos);
}

}  // namespace
