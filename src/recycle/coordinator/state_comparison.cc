#include "recycle/coordinator/state_comparison.h"

#include <algorithm>
#include <cstddef>

namespace recycle {

std::optional<StateComparison::Difference> StateComparison::Receive(WorkerId from,
                                                                    const StateHash& message) {
  const StageId stage = from.stage;
  Hashes& told = told_[{stage, message.version}];
  told[from] = message.hash;
  std::map<std::uint64_t, std::vector<WorkerId>> by_hash;
  std::size_t members = 0;
  for (const WorkerId worker : roster_.Live()) {
    if (worker.stage != stage) continue;
    const auto hash = told.find(worker);
    if (hash == told.end()) return std::nullopt;
    by_hash[hash->second].push_back(worker);
    ++members;
  }
  // Also the older ones: who came or went in between never told of them.
  std::erase_if(told_, [&](const auto& entry) {
    return entry.first.first == stage && entry.first.second <= message.version;
  });
  if (by_hash.size() <= 1) {
    equal_[stage] = message.version;
    return std::nullopt;
  }
  Difference difference;
  for (auto& [hash, workers] : by_hash) {
    if (2 * workers.size() > members) {
      difference.right = std::move(workers);
    } else {
      difference.wrong.insert(difference.wrong.end(), workers.begin(), workers.end());
    }
  }
  std::sort(difference.wrong.begin(), difference.wrong.end());
  return difference;
}

std::optional<std::int32_t> StateComparison::LastEqual(StageId stage) const {
  const auto equal = equal_.find(stage);
  if (equal == equal_.end()) return std::nullopt;
  return equal->second;
}

void StateComparison::StartOver() {
  told_.clear();
  equal_.clear();
}

}  // namespace recycle
