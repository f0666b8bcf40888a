// How much activation memory a worker may hold: the value of --memory-cap and schedule.memory_cap.
#ifndef RECYCLE_APP_MEMORY_CAP_H_
#define RECYCLE_APP_MEMORY_CAP_H_

#include <map>
#include <string>
#include <string_view>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

struct MemoryCap {
  enum class Kind : std::uint8_t {
    kNone,          // "none": no limit
    kAuto,          // "auto": what the device has beside the state (jobs only)
    kOneFOneB,      // "1f1b": PP - i micro-batches at stage i
    kMicroBatches,  // a number: so many micro-batches at every stage
  };
  Kind kind = Kind::kNone;
  double micro_batches = 0;  // kMicroBatches; >= 1
  bool operator==(const MemoryCap&) const = default;
};

// "none", "auto", "1f1b", or the number as short as it reads back equal.
std::string ToString(const MemoryCap& cap);

// The inverse; "auto" only where a job says what a device has. `name` is the option or key for
// messages. Error: kInvalidArgument, one sentence.
StatusOr<MemoryCap> ParseMemoryCap(std::string_view text, std::string_view name, bool allow_auto);

// Sets the capacity of every worker in a job's costs. `device_bytes` is what one worker may use in
// all; kAuto gives it minus the state of the worker's stages and its snapshots (`snapshot_bytes`,
// by worker: the most of a stage's workers counts). Error: kInvalidArgument if that leaves less
// than one micro-batch.
Status ApplyJobMemoryCap(const MemoryCap& cap, const Parallelism& parallel, double device_bytes,
                         const std::map<WorkerId, double>& snapshot_bytes, CostProfile& costs);

}  // namespace recycle

#endif  // RECYCLE_APP_MEMORY_CAP_H_
