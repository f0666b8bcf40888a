#include "recycle/executor/snapshot_store.h"

#include <algorithm>
#include <utility>

namespace recycle {

void SnapshotStore::Begin(StageId stage, int version) {
  std::erase_if(snapshots_, [&](const auto& entry) {
    return entry.first.first == stage && entry.first.second != counted_ &&
           entry.first.second < version;
  });
}

void SnapshotStore::Put(StageId stage, Snapshot snapshot) {
  Begin(stage, snapshot.version);
  const int version = snapshot.version;
  snapshots_.insert_or_assign({stage, version}, std::move(snapshot));
}

void SnapshotStore::Count(int version) {
  counted_ = std::max(counted_, version);
  std::erase_if(snapshots_, [&](const auto& entry) { return entry.first.second < version; });
}

void SnapshotStore::KeepOnly(std::optional<int> version) {
  std::erase_if(snapshots_, [&](const auto& entry) { return entry.first.second != version; });
  counted_ = version.value_or(0);
}

const Snapshot* SnapshotStore::Find(StageId stage, int version) const {
  const auto found = snapshots_.find({stage, version});
  return found == snapshots_.end() ? nullptr : &found->second;
}

const Snapshot* SnapshotStore::Newest(StageId stage) const {
  const auto after = snapshots_.lower_bound({StageId(stage.value() + 1), 0});
  if (after == snapshots_.begin() || std::prev(after)->first.first != stage) return nullptr;
  return &std::prev(after)->second;
}

std::vector<SnapshotHeld> SnapshotStore::Held() const {
  std::vector<SnapshotHeld> held;
  for (const auto& [key, snapshot] : snapshots_) held.push_back(Describe(key.first, snapshot));
  return held;
}

SnapshotHeld Describe(StageId stage, const Snapshot& snapshot) {
  SnapshotHeld held{.stage = stage, .version = snapshot.version, .bytes = 0};
  for (const SharedBytes& bytes : snapshot.parameters) {
    held.bytes += static_cast<std::int64_t>(bytes->size());
  }
  return held;
}

}  // namespace recycle
