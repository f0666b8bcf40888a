#include "recycle/app/leader_address.h"

#include <fmt/format.h>

#include <sstream>

#include "recycle/base/file.h"

namespace recycle {

Status WriteLeaderAddress(const RunFolder& folder, const LeaderAddress& leader) {
  return WriteFileAtomically(folder.Address(),
                             fmt::format("{}\nterm {}\n", leader.address, leader.term));
}

StatusOr<LeaderAddress> ReadLeaderAddress(const RunFolder& folder) {
  const StatusOr<std::string> text = ReadWholeFile(folder.Address());
  if (!text.ok()) {
    return absl::UnavailableError(
        fmt::format("no job is running in '{}': there is no coordinator.address; its results are "
                    "in summary.json and metrics.jsonl",
                    folder.root()));
  }
  std::istringstream lines(*text);
  LeaderAddress leader;
  std::string word;
  lines >> leader.address >> word >> leader.term;
  if (lines.fail() || word != "term" || leader.term < 1) {
    return absl::DataLossError(
        fmt::format("'{}' is damaged: it has to hold an address and a term", folder.Address()));
  }
  return leader;
}

}  // namespace recycle
