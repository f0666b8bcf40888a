// The built program itself: what it links, how fast it answers, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace recycle {
namespace {

struct Output {
  int code = 0;
  std::string text;  // both streams
};

Output Shell(const std::string& command) {
  Output output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.text.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

const std::string kProgram = RECYCLE_PROGRAM;

TEST(ProgramTest, LinksNoLibtorch) {
  const Output libraries = Shell("ldd " + kProgram);
  ASSERT_EQ(libraries.code, 0) << libraries.text;
  EXPECT_THAT(libraries.text, ::testing::HasSubstr("libc.so"));
  for (const char* forbidden : {"torch", "libc10", "gloo"}) {
    EXPECT_THAT(libraries.text, ::testing::Not(::testing::HasSubstr(forbidden)));
  }
}

TEST(ProgramTest, AnswersAtOnce) {
  // The best of several tries: the bound is about the program, not about a busy machine.
  std::chrono::duration<double> best{1e9};
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(Shell(kProgram + " plan --dp 3 --pp 4 --microbatches 6 --failed 1:2").code, 0);
    best = std::min<std::chrono::duration<double>>(best, std::chrono::steady_clock::now() - start);
  }
  EXPECT_LT(best.count(), 0.3);
}

TEST(ProgramTest, EndsWithTheDocumentedCodes) {
  EXPECT_EQ(Shell(kProgram + " --version").code, 0);
  EXPECT_EQ(Shell(kProgram + " plan --dp 1 --pp 1 --microbatches 1 --failed 0:0").code, 1);
  EXPECT_EQ(Shell(kProgram + " plan --dp 0 --pp 1 --microbatches 1").code, 2);
  EXPECT_EQ(Shell(kProgram + " simulate").code, 2);
}

}  // namespace
}  // namespace recycle
