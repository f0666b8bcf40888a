#include "recycle/app/run_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "recycle/base/file.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() {
    std::string pattern = ::testing::TempDir() + "run-folder-XXXXXX";
    base_ = mkdtemp(pattern.data());
  }
  ~RunFolderTest() override { fs::remove_all(base_); }

  fs::path base_;
  ManualClock clock_;
};

TEST_F(RunFolderTest, ANewFolderIsMadeWithItsParents) {
  const StatusOr<RunFolder> folder =
      RunFolder::Create((base_ / "a/b").string(), "job.yaml", clock_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_TRUE(fs::is_directory(folder->FaultFolder()));
  EXPECT_EQ(folder->TracePart(WorkerId{PipelineId(1), StageId(2)}),
            (base_ / "a/b/logs/trace/1-2.jsonl").string());
}

TEST_F(RunFolderTest, AFolderThatIsNotEmptyIsRefusedAndLeftAsItIs) {
  std::ofstream(base_ / "precious.txt") << "kept";
  const StatusOr<RunFolder> folder = RunFolder::Create(base_.string(), "job.yaml", clock_);
  EXPECT_EQ(folder.status().code(), StatusCode::kAlreadyExists);
  EXPECT_NE(folder.status().message().find(base_.string()), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(base_), fs::directory_iterator()), 1);
}

TEST_F(RunFolderTest, AFolderWhoseRunNeverBeganIsTakenAgainOnceItsProcessIsGone) {
  const std::string path = (base_ / "run").string();
  const pid_t pid = fork();
  if (pid == 0) _exit(RunFolder::Create(path, "job.yaml", clock_).ok() ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_EQ(status, 0);
  const StatusOr<RunFolder> folder = RunFolder::Create(path, "job.yaml", clock_);
  EXPECT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(RunFolder::Create(path, "job.yaml", clock_).status().code(),
            StatusCode::kInvalidArgument)
      << "it is claimed now";
}

TEST_F(RunFolderTest, AFolderThatCannotBeWrittenIsRefusedByName) {
  const StatusOr<RunFolder> folder = RunFolder::Create("/proc/run", "job.yaml", clock_);
  EXPECT_EQ(folder.status().code(), StatusCode::kPermissionDenied);
  EXPECT_NE(folder.status().message().find("'/proc/run'"), std::string::npos);
}

TEST_F(RunFolderTest, DiscardTakesBackWhatCreateMade) {
  const std::string fresh = (base_ / "fresh").string();
  const StatusOr<RunFolder> made = RunFolder::Create(fresh, "job.yaml", clock_);
  ASSERT_TRUE(made.ok()) << made.status();
  made->Discard();
  EXPECT_FALSE(fs::exists(fresh));

  const std::string empty = (base_ / "empty").string();
  fs::create_directory(empty);
  const StatusOr<RunFolder> claimed = RunFolder::Create(empty, "job.yaml", clock_);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  claimed->Discard();
  EXPECT_TRUE(fs::is_empty(empty));
}

TEST_F(RunFolderTest, OpenWantsAConfig) {
  EXPECT_EQ(RunFolder::Open(base_.string()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically((base_ / "config.yaml").string(), "x: 1\n").ok());
  EXPECT_TRUE(RunFolder::Open(base_.string()).ok());
  EXPECT_EQ(*ReadWholeFile((base_ / "config.yaml").string()), "x: 1\n");
}

TEST_F(RunFolderTest, ARunThatStillRunsIsNotResumed) {
  const std::string path = (base_ / "run").string();
  const StatusOr<RunFolder> folder = RunFolder::Create(path, "job.yaml", clock_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(RunFolder::Reopen(path).status().code(), StatusCode::kNotFound) << "nothing to go on";
  ASSERT_TRUE(WriteFileAtomically(folder->Config(), "x").ok());
  const Status refused = RunFolder::Reopen(path).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("belongs to a job that runs"), std::string::npos);
}

}  // namespace
}  // namespace recycle
