// What a Store promises, held against both: SQLite's file and a real etcd of one member on loopback
// (skipped where etcd is not installed).
#include "recycle/rpc/etcd_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "recycle/store/leadership.h"
#include "recycle/store/sqlite_store.h"
#include "recycle/testing/etcd_server.h"

namespace recycle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class StoreContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "contract-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    if (GetParam() == "sqlite") return;
    if (!EtcdServer::IsInstalled()) GTEST_SKIP() << EtcdServer::kMissing;
    server_ = std::make_unique<EtcdServer>(folder_);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Store> Open() const {
    if (server_ == nullptr) return SqliteStore::Open(folder_ / "store.sqlite").value();
    return EtcdStore::Open(server_->endpoint(), "job", std::nullopt).value();
  }

  std::filesystem::path folder_;
  std::unique_ptr<EtcdServer> server_;
};

INSTANTIATE_TEST_SUITE_P(All, StoreContract, ::testing::Values("sqlite", "etcd"),
                         [](const auto& info) { return info.param; });

TEST_P(StoreContract, ComparesAndSetsUnderAGuard) {
  const auto store = Open();
  const std::string bytes("a\0b\xff", 4);
  EXPECT_FALSE(store->Get("record").value().has_value());
  ASSERT_TRUE(store->CompareAndSet({.key = "term", .value = "me"}).ok());
  EXPECT_TRUE(store->CompareAndSet({.key = "record", .value = bytes, .guard = {{"term", 1}}}).ok());
  const auto entry = Open()->Get("record").value();
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->value, bytes);
  EXPECT_EQ(entry->version, 1);
  const Status late = store->CompareAndSet({.key = "record", .value = "late"});
  EXPECT_EQ(late.code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(late.message()), HasSubstr("record is at version 1, not 0"));
  ASSERT_TRUE(store->CompareAndSet({.key = "term", .expected_version = 1, .value = "you"}).ok());
  const Store::Write zombies{
      .key = "record", .expected_version = 1, .value = "late", .guard = {{"term", 1}}};
  EXPECT_EQ(store->CompareAndSet(zombies).code(), StatusCode::kAborted);
  EXPECT_EQ(store->Get("record").value()->value, bytes);
}

TEST_P(StoreContract, AnEntryVanishesWithItsLease) {
  const auto store = Open();
  const Store::Lease kept = store->Grant(seconds(2)).value();
  const Store::Lease lapsing = store->Grant(seconds(2)).value();
  ASSERT_TRUE(store->CompareAndSet({.key = "kept", .value = "x", .lease = kept}).ok());
  ASSERT_TRUE(store->CompareAndSet({.key = "lapsing", .value = "x", .lease = lapsing}).ok());
  std::atomic<bool> gone = false;
  std::thread waiter([&] {
    const auto other = Open();
    while (other->Get("lapsing").value().has_value()) {
      EXPECT_TRUE(other->AwaitChange("lapsing", 1, seconds(5)).ok());
    }
    gone = true;
  });
  for (const TimePoint limit = SystemClock().Now() + seconds(20);
       !gone && SystemClock().Now() < limit;) {
    EXPECT_TRUE(store->KeepAlive(kept).ok());
    std::this_thread::sleep_for(milliseconds(100));
  }
  waiter.join();
  EXPECT_TRUE(gone);
  EXPECT_TRUE(store->Get("kept").value().has_value());
  EXPECT_EQ(store->KeepAlive(lapsing).code(), StatusCode::kNotFound);
  EXPECT_TRUE(store->Revoke(kept).ok());
  EXPECT_FALSE(store->Get("kept").value().has_value());
  EXPECT_TRUE(store->CompareAndSet({.key = "kept", .value = "again"}).ok());
}

TEST_P(StoreContract, WhoCampaignsLeadsWhenTheLeadersLeaseIsOver) {
  const auto store = Open();
  Leadership first = Leadership::Campaign(*store, "first", seconds(2)).value();
  EXPECT_EQ(first.term(), 1);
  std::atomic<bool> leads = false;
  std::thread second([&] {
    const auto other = Open();
    Leadership leadership = Leadership::Campaign(*other, "second", seconds(2)).value();
    EXPECT_EQ(leadership.term(), 2);
    EXPECT_TRUE(leadership.Prove().ok());
    leads = true;
  });
  const TimePoint until = SystemClock().Now() + seconds(3);
  while (SystemClock().Now() < until) {  // longer than a lease
    EXPECT_TRUE(first.Prove().ok());
    EXPECT_FALSE(leads);
    std::this_thread::sleep_for(milliseconds(200));
  }
  second.join();  // the first one gives no sign of life any more
  EXPECT_TRUE(leads);
  EXPECT_EQ(first.Prove().code(), StatusCode::kAborted);
  EXPECT_EQ(first.Write("generation", 0, "late").code(), StatusCode::kAborted);
}

TEST(EtcdStore, EndpointsAreNumericAndErrorsNameThem) {
  EXPECT_EQ(EtcdStore::Open("localhost:2379", "job", std::nullopt).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(EtcdStore::Open("", "job", std::nullopt).status().code(), StatusCode::kInvalidArgument);
  const std::string nobody = fmt::format("127.0.0.1:{}", FreePort());
  const Status status = EtcdStore::Open(nobody, "job", std::nullopt).value()->Get("x").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(nobody));
}

class EtcdOutage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::IsInstalled()) GTEST_SKIP() << EtcdServer::kMissing;
    std::string name = (std::filesystem::temp_directory_path() / "outage-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    server_ = std::make_unique<EtcdServer>(folder_);
    store_ = EtcdStore::Open(server_->endpoint(), "job", std::nullopt).value();
    ASSERT_TRUE(store_->Get("up").ok());
  }
  void TearDown() override {
    server_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Every thread of the server stands still when this returns.
  void Freeze() const {
    kill(server_->pid(), SIGSTOP);
    waitpid(server_->pid(), nullptr, WUNTRACED);
  }

  std::filesystem::path folder_;
  std::unique_ptr<EtcdServer> server_;
  std::unique_ptr<EtcdStore> store_;
};

// It stands still for a moment, as an etcd does that elects a leader: nobody notices.
TEST_F(EtcdOutage, AShortOneIsWaitedOut) {
  Freeze();
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(700));
    kill(server_->pid(), SIGCONT);
  });
  const Status stored = store_->CompareAndSet({.key = "record", .value = "x"});
  EXPECT_TRUE(stored.ok()) << stored;  // also where the answer to an attempt got lost
  waker.join();
}

TEST_F(EtcdOutage, ALeaderLeavesWhenItsLeaseMayBeOver) {
  const TimePoint begin = SystemClock().Now();
  Leadership leads = Leadership::Campaign(*store_, "leader", seconds(3)).value();
  Freeze();
  Status proof = leads.Prove();
  while (absl::IsUnavailable(proof)) {
    EXPECT_LT(SystemClock().Now(), begin + seconds(60));
    proof = leads.Prove();
  }
  EXPECT_EQ(proof.code(), StatusCode::kAborted);
  EXPECT_GE(SystemClock().Now(), begin + seconds(3));
}

}  // namespace
}  // namespace recycle
