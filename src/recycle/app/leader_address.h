// Where the coordinator that leads can be reached: the run folder's file coordinator.address, two
// lines, "127.0.0.1:40213" and "term 2". Executors, agents and people's commands find it there.
//
//   RC_ASSIGN_OR_RETURN(LeaderAddress leader, ReadLeaderAddress(folder));
//
// A later leader has a higher term. Thread-safe.
#ifndef RECYCLE_APP_LEADER_ADDRESS_H_
#define RECYCLE_APP_LEADER_ADDRESS_H_

#include <cstdint>
#include <string>

#include "recycle/app/run_folder.h"
#include "recycle/base/status.h"

namespace recycle {

struct LeaderAddress {
  std::string address;
  std::int64_t term = 0;
  bool operator==(const LeaderAddress&) const = default;
};

// Error: the file cannot be written.
Status WriteLeaderAddress(const RunFolder& folder, const LeaderAddress& leader);
// Errors: kUnavailable if there is no file (no job runs), kDataLoss if it is damaged.
StatusOr<LeaderAddress> ReadLeaderAddress(const RunFolder& folder);

}  // namespace recycle

#endif  // RECYCLE_APP_LEADER_ADDRESS_H_
