#include "recycle/executor/allocation_meter.h"

#include <c10/core/Allocator.h>

namespace recycle {

// libtorch calls it in the thread that allocates or frees.
class AllocationMeter::Sink : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*ptr*/, std::int64_t alloc_size, std::int64_t /*total_allocated*/,
                         std::int64_t /*total_reserved*/, c10::Device /*device*/) override {
    bytes_ += alloc_size;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

AllocationMeter::AllocationMeter()
    : sink_(std::make_shared<Sink>()), guard_(c10::DebugInfoKind::PROFILER_STATE, sink_) {}

AllocationMeter::~AllocationMeter() = default;

std::int64_t AllocationMeter::bytes() const { return sink_->bytes(); }

void ReportHeld(void* memory, std::int64_t bytes) {
  c10::reportMemoryUsageToProfiler(memory, bytes, 0, 0, c10::Device(c10::DeviceType::CPU));
}

}  // namespace recycle
