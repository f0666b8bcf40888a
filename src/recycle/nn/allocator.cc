#include "recycle/nn/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include "recycle/base/check.h"
#include "recycle/nn/tensor_pool.h"

namespace recycle {
namespace {

// Never destroyed: libtorch may hold tensors until the process ends.
TensorPool& ProcessPool() {
  static auto* const pool = new TensorPool();
  return *pool;
}

void NoteMemory(void* memory, std::int64_t bytes) {
  if (!c10::memoryProfilingEnabled()) return;
  const TensorPool::Usage usage = ProcessPool().usage();
  c10::reportMemoryUsageToProfiler(memory, bytes, static_cast<std::int64_t>(usage.in_use),
                                   static_cast<std::int64_t>(usage.held),
                                   c10::Device(c10::DeviceType::CPU));
}

void GiveBack(void* memory) {
  if (memory == nullptr) return;
  NoteMemory(memory, -static_cast<std::int64_t>(TensorPool::SizeOf(memory)));
  ProcessPool().Give(memory);
}

class PoolAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    void* const memory = bytes == 0 ? nullptr : ProcessPool().Take(bytes);
    if (memory != nullptr) NoteMemory(memory, static_cast<std::int64_t>(bytes));
    return {memory, memory, &GiveBack, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &GiveBack; }
};

}  // namespace

void TuneAllocator() {
  constexpr int kThresholdBytes = 1 << 30;
  RC_CHECK(mallopt(M_MMAP_THRESHOLD, kThresholdBytes) == 1);
  RC_CHECK(mallopt(M_TRIM_THRESHOLD, kThresholdBytes) == 1);
  static PoolAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

}  // namespace recycle
