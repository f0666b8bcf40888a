// What a newcomer meets first: ./recycle without packages, without root, without arguments.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

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

std::string TextOf(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A folder of its own, gone with the test.
class ScratchFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "recycle-front-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

// Every `./recycle ...` line of the README, word for word and in its order: those that need a
// running job must be refused for that alone, and training is asked for its plan only.
TEST_F(ScratchFolder, TheReadmesCommandsWork) {
  std::istringstream lines(TextOf(fs::path(RECYCLE_SOURCE_DIR) / "README.md"));
  fs::create_directory(folder_ / "examples");
  fs::copy(fs::path(RECYCLE_SOURCE_DIR) / "examples/first-light.yaml", folder_ / "examples");
  int commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("./recycle ")) continue;
    const std::string words = line.substr(9, line.find("   ", 9) - 9);
    const bool needs_run = words.find("runs/NAME") != std::string::npos;
    const bool trains =
        words.starts_with(" train") && !needs_run && words.find("--dry-run") == std::string::npos;
    const Result result = Shell(fmt::format("cd {} && {}{}{}", folder_.string(), kProgram, words,
                                            trains ? " --dry-run" : ""));
    SCOPED_TRACE(line + "\n" + result.output);
    EXPECT_EQ(result.code, needs_run ? 2 : 0);
    EXPECT_EQ(needs_run, result.output.find("runs/NAME") != std::string::npos);
    ++commands;
  }
  EXPECT_GE(commands, 13);
}

TEST(Newcomer, LinksBetweenDocumentsLead) {
  const fs::path root = RECYCLE_SOURCE_DIR;
  std::vector<fs::path> pages = {root / "README.md", root / "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs")) pages.push_back(entry.path());
  const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  int links = 0;
  for (const fs::path& page : pages) {
    const std::string text = TextOf(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(page.parent_path() / it->str(1))) << page << " " << it->str();
      ++links;
    }
  }
  EXPECT_GE(links, 30);
}

// docs/PAPER_MAP.md: a source is src/recycle/<name>, a test is a binary that is built.
TEST(Newcomer, ThePapersMapNamesWhatIsThere) {
  const fs::path root = RECYCLE_SOURCE_DIR;
  const std::string text = TextOf(root / "docs/PAPER_MAP.md");
  const std::regex quoted("`([a-z_]+/[a-z_]+\\.h)`|`([a-z_]+_test)`");
  int names = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
    const fs::path source = root / "src/recycle" / it->str(1);
    const std::string test = it->str(2);
    const bool is_module = fs::exists(root / "src/recycle" / test.substr(0, test.rfind('_')));
    const fs::path multiprocess =
        root / "tests/multiprocess" / (test.substr(std::min<std::size_t>(13, test.size())) + ".cc");
    const bool is_test = is_module || test == "testing_model_test" ||
                         (test.starts_with("multiprocess_") && fs::exists(multiprocess));
    EXPECT_TRUE(test.empty() ? fs::exists(source) : is_test) << it->str();
    ++names;
  }
  EXPECT_GE(names, 30);
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
