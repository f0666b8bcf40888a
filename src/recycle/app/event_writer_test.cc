#include "recycle/app/event_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "recycle/base/file.h"

namespace recycle {
namespace {

std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// As if the disk were full beyond `bytes`, for this process's files.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(RecordFile, AFullDiskLosesWholeLinesSaysSoOnceAndGoesOnWithRoom) {
  const std::string path = ::testing::TempDir() + "/line-file.jsonl";
  std::filesystem::remove(path);
  std::vector<std::string> warnings;
  RecordFile file(path, [&](const std::string& text) { warnings.push_back(text); });
  file.Append(R"({"iteration":1})");
  {
    // Room for half of the next line: none of it may stay.
    const FullDisk full(std::filesystem::file_size(path) + 8);
    file.Append(R"({"iteration":2})");
    file.Append(R"({"iteration":3})");
  }
  file.Append(R"({"iteration":4})");
  EXPECT_EQ(ReadLines(path),
            (std::vector<std::string>{R"({"iteration":1})", R"({"iteration":4})"}));
  EXPECT_EQ(file.lost(), 2);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("disk full: line-file.jsonl"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("2 lines of line-file.jsonl lost"), std::string::npos) << warnings[1];
  std::filesystem::remove(path);
}

TEST(MakeEvent, TimesAreWrittenToTheMicrosecond) {
  EXPECT_EQ(MakeEvent(1700000000.1234567, "job_started").dump(),
            R"({"time":1700000000.123457,"event":"job_started"})");
}

TEST(RecordFile, LinesOfIterationsThatAreDoneAgainAreCutOff) {
  const std::string path = ::testing::TempDir() + "recycle-cut-lines.jsonl";
  std::ofstream(path) << "{\"iteration\":1}\n{\"iteration\":2}\n{\"iteration\":3}\n{\"iter";
  ASSERT_TRUE(DropLinesAfter(path, 2).ok());
  EXPECT_EQ(ReadWholeFile(path).value(), "{\"iteration\":1}\n{\"iteration\":2}\n");
  EXPECT_TRUE(DropLinesAfter(path + ".not-there", 2).ok());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace recycle
