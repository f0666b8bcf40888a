// How much activation memory a worker may hold: the value of --memory-cap and schedule.memory_cap.
#ifndef RECYCLE_APP_MEMORY_CAP_H_
#define RECYCLE_APP_MEMORY_CAP_H_

#include <map>
#include <string>
#include <string_view>

#include "recycle/app/standing_memory.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

struct MemoryCap {
  enum class Kind : std::uint8_t {
    kNone,          // "none": no limit
    kAuto,          // "auto": what a plan can use of what the device has to spare (jobs only)
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
// all; kAuto gives it minus what `standing` holds (of a stage's workers the one with the most
// counts), and at most the micro-batches that can make a plan shorter: a number that depends on PP
// and the sends, so that memory does not grow with the global batch. Error: kInvalidArgument if
// less than one micro-batch is left.
Status ApplyJobMemoryCap(const MemoryCap& cap, const Parallelism& parallel, double device_bytes,
                         const std::map<WorkerId, StandingMemory>& standing, CostProfile& costs);

}  // namespace recycle

#endif  // RECYCLE_APP_MEMORY_CAP_H_
