#include "recycle/planner/zero_bubble.h"

#include <algorithm>
#include <vector>

#include "recycle/planner/fault_free.h"

namespace recycle {
namespace {

// `warm_up` forwards, then I, the W of `delay` micro-batches before, F; the W's that are left at
// the end.
std::vector<PipelineAction> ZeroBubbleSequence(int stage, int micro_batches, int warm_up,
                                               int delay) {
  std::vector<PipelineAction> sequence;
  sequence.reserve(3 * static_cast<std::size_t>(micro_batches));
  warm_up = std::min(warm_up, micro_batches);
  for (int m = 0; m < warm_up; ++m) sequence.push_back({ActionKind::kForward, stage, m});
  for (int m = 0; m < micro_batches; ++m) {
    sequence.push_back({ActionKind::kBackwardInput, stage, m});
    if (m >= delay) sequence.push_back({ActionKind::kBackwardWeight, stage, m - delay});
    if (m + warm_up < micro_batches) {
      sequence.push_back({ActionKind::kForward, stage, m + warm_up});
    }
  }
  for (int m = std::max(0, micro_batches - delay); m < micro_batches; ++m) {
    sequence.push_back({ActionKind::kBackwardWeight, stage, m});
  }
  return sequence;
}

}  // namespace

StatusOr<Order> MakeZbH1(const FlatJob& job) {
  return MakeFaultFree(job, "zb-h1", [&](int stage) {
    return ZeroBubbleSequence(stage, job.micro_batches, job.num_stages - stage, stage);
  });
}

StatusOr<Order> MakeZbH2(const FlatJob& job) {
  return MakeFaultFree(job, "zb-h2", [&](int stage) {
    return ZeroBubbleSequence(stage, job.micro_batches, 2 * (job.num_stages - stage) - 1,
                              2 * stage);
  });
}

}  // namespace recycle
