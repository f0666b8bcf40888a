// How many bytes the tensors hold that a thread has made: measured where libtorch takes memory and
// gives it back, whatever the tensors are for.
//
//   AllocationMeter meter;
//   const std::int64_t before = meter.bytes();
//   ... run an action ...
//   const std::int64_t kept = meter.bytes() - before;
//
// Counts what its thread allocates and frees from its making on, whenever what it frees was made.
// Memory that a tensor takes over without libtorch allocating it (at::from_blob) counts where
// the code says so: ReportHeld. One meter per thread at a time; belongs to that thread.
#ifndef RECYCLE_EXECUTOR_ALLOCATION_METER_H_
#define RECYCLE_EXECUTOR_ALLOCATION_METER_H_

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace recycle {

class AllocationMeter {
 public:
  AllocationMeter();
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  std::int64_t bytes() const;

 private:
  class Sink;
  const std::shared_ptr<Sink> sink_;
  const c10::DebugInfoGuard guard_;
};

// `bytes` at `memory` are a tensor's from now on (negative: no longer). Nothing without a meter.
void ReportHeld(void* memory, std::int64_t bytes);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_ALLOCATION_METER_H_
