#include "recycle/nn/allocator.h"

#include <malloc.h>

#include "recycle/base/check.h"

namespace recycle {

void TuneAllocator() {
  constexpr int kThresholdBytes = 1 << 30;
  RC_CHECK(mallopt(M_MMAP_THRESHOLD, kThresholdBytes) == 1);
  RC_CHECK(mallopt(M_TRIM_THRESHOLD, kThresholdBytes) == 1);
}

}  // namespace recycle
