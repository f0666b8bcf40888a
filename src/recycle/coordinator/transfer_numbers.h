// The numbers of a job's copies of state, whatever they are for. Those that an earlier coordinator
// has given out are known as such.
//
// A plain value; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_TRANSFER_NUMBERS_H_
#define RECYCLE_COORDINATOR_TRANSFER_NUMBERS_H_

#include <cstdint>

#include "recycle/base/ids.h"

namespace recycle {

class TransferNumbers {
 public:
  // Another coordinator has led before, until generation `newest`: one that gives out numbers has
  // stored a generation of its own before.
  void StartAfter(Generation newest) {
    constexpr std::int64_t kPerGeneration = std::int64_t{1} << 24;
    last_ = newest.value() * kPerGeneration;
    first_ = last_ + 1;
  }
  std::int64_t Next() { return ++last_; }
  bool IsOwn(std::int64_t transfer) const { return transfer >= first_; }

 private:
  std::int64_t first_ = 1;
  std::int64_t last_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_TRANSFER_NUMBERS_H_
