#include "recycle/executor/snapshot_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace recycle {
namespace {

Snapshot Make(int version) {
  return {.version = version, .parameters = {std::make_shared<const std::vector<std::byte>>(8)}};
}

std::vector<int> VersionsOf(const SnapshotStore& store, StageId stage) {
  std::vector<int> versions;
  for (const SnapshotHeld& held : store.Held()) {
    if (held.stage == stage) versions.push_back(held.version);
  }
  return versions;
}

const StageId kOwn(1);
const StageId kOther(0);

TEST(SnapshotStore, TheOneThatCountsStaysUntilAnotherDoes) {
  SnapshotStore store;
  store.Put(kOwn, Make(4));
  store.Put(kOther, Make(4));
  store.Count(4);
  store.Put(kOwn, Make(8));
  store.Put(kOther, Make(8));
  EXPECT_EQ(VersionsOf(store, kOwn), (std::vector{4, 8}));
  store.Put(kOwn, Make(12));  // 8 can count no more
  EXPECT_EQ(VersionsOf(store, kOwn), (std::vector{4, 12}));
  EXPECT_EQ(store.Newest(kOwn)->version, 12);
  EXPECT_EQ(store.Newest(kOther)->version, 8);
  store.Begin(kOther, 12);
  EXPECT_EQ(VersionsOf(store, kOther), std::vector{4});
  store.Put(kOther, Make(12));
  store.Count(12);
  EXPECT_EQ(VersionsOf(store, kOwn), std::vector{12});
  EXPECT_EQ(VersionsOf(store, kOther), std::vector{12});
  EXPECT_EQ(store.Held().front().bytes, 8);
}

TEST(SnapshotStore, GoingBackVoidsWhatIsNewer) {
  SnapshotStore store;
  store.Put(kOwn, Make(4));
  store.Count(4);
  store.Put(kOwn, Make(8));
  store.KeepOnly(4);
  EXPECT_EQ(VersionsOf(store, kOwn), std::vector{4});
  EXPECT_EQ(store.Find(kOwn, 8), nullptr);
  store.KeepOnly(std::nullopt);
  EXPECT_EQ(store.Newest(kOwn), nullptr);
}

}  // namespace
}  // namespace recycle
