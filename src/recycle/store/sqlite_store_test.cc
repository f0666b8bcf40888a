#include "recycle/store/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace recycle {
namespace {

using ::testing::HasSubstr;

class SqliteStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "store-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return folder_ / "store.sqlite"; }
  std::unique_ptr<SqliteStore> Open() const { return SqliteStore::Open(Path()).value(); }

  std::filesystem::path folder_;
};

TEST_F(SqliteStoreTest, ComparesSetsAndKeepsValuesAfterReopening) {
  const std::string bytes("a\0b'\"\xff", 6);
  {
    const auto store = Open();
    EXPECT_FALSE(store->Get("record").value().has_value());
    EXPECT_TRUE(
        store->CompareAndSet({.key = "record", .expected_version = 0, .value = "first"}).ok());
    EXPECT_TRUE(
        store->CompareAndSet({.key = "record", .expected_version = 1, .value = bytes}).ok());
    EXPECT_TRUE(store->CompareAndSet({.key = "other", .expected_version = 0, .value = ""}).ok());
  }
  const auto store = Open();
  const auto entry = store->Get("record").value();
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->value, bytes);
  EXPECT_EQ(entry->version, 2);
  EXPECT_EQ(store->Get("other").value()->value, "");
}

TEST_F(SqliteStoreTest, TheOneWhoIsLateLosesAndLearnsTheVersion) {
  const auto leader = Open();
  const auto zombie = Open();
  ASSERT_TRUE(
      zombie->CompareAndSet({.key = "record", .expected_version = 0, .value = "by the zombie"})
          .ok());
  ASSERT_TRUE(
      leader->CompareAndSet({.key = "record", .expected_version = 1, .value = "by the leader"})
          .ok());
  for (const std::int64_t expected : {0, 1, 7}) {
    const Status late =
        zombie->CompareAndSet({.key = "record", .expected_version = expected, .value = "late"});
    EXPECT_EQ(late.code(), StatusCode::kAborted);
    EXPECT_THAT(std::string(late.message()), HasSubstr("record is at version 2, not"));
  }
  EXPECT_EQ(zombie->CompareAndSet({.key = "missing", .expected_version = 3, .value = "x"}).code(),
            StatusCode::kAborted);
  EXPECT_EQ(leader->Get("record").value()->value, "by the leader");
}

TEST_F(SqliteStoreTest, RacingConnectionsLoseNoUpdate) {
  constexpr int kIncrements = 25;
  std::atomic<int> lost_races = 0;
  const auto increment = [&] {
    const auto store = Open();
    for (int done = 0; done < kIncrements;) {
      const auto entry = store->Get("counter").value();
      const int value = entry ? std::stoi(entry->value) : 0;
      const Status stored = store->CompareAndSet({.key = "counter",
                                                  .expected_version = entry ? entry->version : 0,
                                                  .value = std::to_string(value + 1)});
      if (stored.ok()) {
        ++done;
      } else {
        ASSERT_EQ(stored.code(), StatusCode::kAborted) << stored;
        ++lost_races;
      }
    }
  };
  std::thread other(increment);
  increment();
  other.join();
  EXPECT_EQ(Open()->Get("counter").value()->value, std::to_string(2 * kIncrements));
  RecordProperty("lost_races", lost_races);
}

TEST_F(SqliteStoreTest, ErrorsNameThePath) {
  const Status missing = SqliteStore::Open(folder_ / "nowhere" / "store.sqlite").status();
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nowhere/store.sqlite: cannot open it"));

  std::ofstream(Path()) << std::string(4096, 'x');
  const Status garbage = SqliteStore::Open(Path()).status();
  EXPECT_EQ(garbage.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(garbage.message()), HasSubstr(Path()));
}

}  // namespace
}  // namespace recycle
