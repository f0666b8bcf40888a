// The built program itself: what it links, how fast it answers, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
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

double ChildrenCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ProgramTest, AnswersWithinThreeTenthsOfASecond) {
  // Processor time, with the shell's: what the program needs whatever else the machine does.
  // Elapsed time is noted beside it, for only an idle machine could hold it to a bound; a program
  // that waited instead of working would be seen there.
  double best_cpu = 1e9;
  std::chrono::duration<double> best_elapsed{1e9};
  for (int i = 0; i < 5; ++i) {
    const double cpu = ChildrenCpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(Shell(kProgram + " plan --dp 3 --pp 4 --microbatches 6 --failed 1:2").code, 0);
    best_elapsed = std::min<std::chrono::duration<double>>(
        best_elapsed, std::chrono::steady_clock::now() - start);
    best_cpu = std::min(best_cpu, ChildrenCpuSeconds() - cpu);
  }
  std::cout << "answered in " << best_elapsed.count() << " s, " << best_cpu << " s of them work\n";
  EXPECT_LT(best_cpu, 0.3);
}

// The paper's largest job: all 513 plans are built, checked and timed, never kept.
TEST(ProgramTest, PlansTwoThousandWorkersInLessThanTwoGigabytes) {
  const double cpu = ChildrenCpuSeconds();
  const Output table =
      Shell(kProgram +
            " plan --dp 32 --pp 64 --microbatches 64 --cost F=1,I=1.05,W=0.85,send=0.05"
            " --memory-cap 64 --all-failures 512 --materialize");
  ASSERT_EQ(table.code, 0) << table.text;
  EXPECT_THAT(table.text, ::testing::HasSubstr("513 failure counts from 9 templates"));
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);  // the largest of all children so far
  const double peak_gb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
  std::cout << table.text.substr(table.text.rfind("513 failure")) << "peak " << peak_gb << " GB, "
            << ChildrenCpuSeconds() - cpu << " s of work\n";
  EXPECT_LT(peak_gb, 2.0);
}

TEST(ProgramTest, SaysWhenItsResultsCannotBeWritten) {
  const Output full =
      Shell("exec 3>&1; (" + kProgram + " plan --dp 1 --pp 1 --microbatches 1 2>&3) >/dev/full");
  EXPECT_EQ(full.code, 2);
  EXPECT_THAT(full.text, ::testing::HasSubstr("standard output cannot be written"));
}

TEST(ProgramTest, EndsWithTheDocumentedCodes) {
  EXPECT_EQ(Shell(kProgram + " --version").code, 0);
  EXPECT_EQ(Shell(kProgram + " plan --dp 1 --pp 1 --microbatches 1 --failed 0:0").code, 1);
  EXPECT_EQ(Shell(kProgram + " plan --dp 0 --pp 1 --microbatches 1").code, 2);
  EXPECT_EQ(Shell(kProgram + " simulate").code, 2);
}

TEST(ProgramTest, NoInjectDropsFaultsThatTheShorterJobCouldNotReach) {
  const std::string shorter =
      kProgram + " train examples/first-light.yaml --dry-run --set train.iterations=5";
  EXPECT_EQ(Shell(shorter).code, 2);
  EXPECT_EQ(Shell(shorter + " --no-inject").code, 0);
}

}  // namespace
}  // namespace recycle
