#include "recycle/store/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "recycle/store/sqlite_store.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;

class LeadershipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "leads-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    store_ = SqliteStore::Open(folder_ / "store.sqlite").value();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(LeadershipTest, ANewTermEndsTheOldOne) {
  Leadership first = Leadership::TakeOver(*store_, "coordinator 1").value();
  EXPECT_EQ(first.term(), 1);
  EXPECT_TRUE(first.Write("generation", 0, "one").ok());
  EXPECT_TRUE(first.Prove().ok());

  Leadership second = Leadership::TakeOver(*store_, "coordinator 2").value();
  EXPECT_EQ(second.term(), 2);
  EXPECT_TRUE(second.Prove().ok());
  const Status lost = first.Prove();
  EXPECT_EQ(lost.code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("coordinator 2 leads since term 2"));
}

// The frozen one wakes: the record is just as it left it, and yet it cannot write the next one.
TEST_F(LeadershipTest, WhoWasReplacedCannotWriteThoughNobodyHasWrittenSince) {
  Leadership frozen = Leadership::TakeOver(*store_, "frozen").value();
  ASSERT_TRUE(frozen.Write("generation", 0, "one").ok());
  Leadership next = Leadership::TakeOver(*store_, "next").value();
  EXPECT_EQ(frozen.Write("generation", 1, "late").code(), StatusCode::kAborted);
  EXPECT_EQ(frozen.Write("other", 0, "late").code(), StatusCode::kAborted);
  EXPECT_FALSE(store_->Get("other").value().has_value());
  EXPECT_TRUE(next.Write("generation", 1, "two").ok());
  EXPECT_EQ(next.Write("generation", 1, "again").code(), StatusCode::kAborted);
  EXPECT_EQ(store_->Get("generation").value()->value, "two");
}

}  // namespace
}  // namespace recycle
