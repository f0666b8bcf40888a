#include "recycle/planner/zero_bubble.h"

#include <algorithm>
#include <utility>
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

// The actions of worker column `column` in ZB-V: counts what it has started of each kind at its
// lower (0) and upper (1) stage.
class VSequence {
 public:
  VSequence(int column, int num_columns, int micro_batches)
      : column_(column), num_columns_(num_columns), micro_batches_(micro_batches) {}

  std::vector<PipelineAction> Make() && {
    const int down = num_columns_ - column_;  // columns from here on
    // Shorter iterations than the warm-up are longer ones without the micro-batches they lack.
    const int total = std::max(micro_batches_, 2 * num_columns_ - 1);
    for (int n = 0; n < 2 * down - 1; ++n) Forward(0);
    for (int n = 0; n < column_; ++n) {
      Forward(1);
      Forward(0);
    }
    for (int n = 0; n < down; ++n) Whole();
    while (forwards_[1] < total) {
      if (forwards_[0] < total) Forward(0);
      Input(0);
      Weight(0);
      Whole();
    }
    for (int n = 0; n < column_; ++n) {
      Input(0);
      Input(1);
    }
    for (int n = 0; n < down; ++n) {
      Input(0);
      Weight(0);
    }
    while (weights_[1] < total) Weight(1);
    while (weights_[0] < total) Weight(0);
    return std::move(sequence_);
  }

 private:
  void Add(ActionKind kind, int upper, int m) {
    if (m >= micro_batches_) return;
    sequence_.push_back({kind, upper == 0 ? column_ : 2 * num_columns_ - 1 - column_, m});
  }
  void Forward(int upper) { Add(ActionKind::kForward, upper, forwards_[upper]++); }
  void Input(int upper) { Add(ActionKind::kBackwardInput, upper, inputs_[upper]++); }
  void Weight(int upper) { Add(ActionKind::kBackwardWeight, upper, weights_[upper]++); }
  void Whole() {
    Forward(1);
    Input(1);
    Weight(1);
  }

  const int column_;
  const int num_columns_;
  const int micro_batches_;
  int forwards_[2] = {0, 0};
  int inputs_[2] = {0, 0};
  int weights_[2] = {0, 0};
  std::vector<PipelineAction> sequence_;
};

}  // namespace

StatusOr<Order> MakeZbV(const FlatJob& job) {
  return MakeFaultFree(job, "zb-v", [&](int column) {
    return VSequence(column, job.num_columns, job.micro_batches).Make();
  });
}

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
