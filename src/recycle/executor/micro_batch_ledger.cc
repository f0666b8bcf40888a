#include "recycle/executor/micro_batch_ledger.h"

#include <optional>

#include "recycle/base/check.h"
#include "recycle/executor/boundary.h"

namespace recycle {
namespace {

// What has to be there before an action of `kind`, and what it leaves.
struct Advance {
  std::optional<Progress> from;
  Progress to;
};

Advance AdvanceOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {std::nullopt, Progress::kForward};
    case ActionKind::kBackwardInput:
      return {Progress::kForward, Progress::kInput};
    case ActionKind::kBackwardWeight:
      return {Progress::kInput, Progress::kWeight};
    case ActionKind::kBackward:
      return {Progress::kForward, Progress::kWeight};
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      break;
  }
  RC_CHECK(false) << KindText(kind) << " belongs to no micro-batch";
  return {};
}

}  // namespace

void MicroBatchLedger::Record(int iteration, const Action& done) {
  const Advance advance = AdvanceOf(done.kind);
  std::map<MicroBatch, Progress>& progress = progress_[iteration];
  const auto found = progress.find(done.micro_batch);
  const std::optional<Progress> before =
      found == progress.end() ? std::nullopt : std::optional(found->second);
  RC_CHECK(before == advance.from) << done << " of iteration " << iteration << " out of order";
  progress[done.micro_batch] = advance.to;
}

void MicroBatchLedger::DropBefore(int iteration) {
  progress_.erase(progress_.begin(), progress_.lower_bound(iteration));
}

std::map<int, IterationLedger> MicroBatchLedger::Report(const std::vector<FrameKey>& received,
                                                        const std::vector<FrameKey>& logged,
                                                        int micro_batches) const {
  std::map<int, IterationLedger> report;
  for (const auto& [iteration, progress] : progress_) report[iteration].progress = progress;
  for (const FrameKey& key : received) {
    report[key.iteration].inbox.push_back(ToBoundaryTensor(key, micro_batches));
  }
  for (const FrameKey& key : logged) {
    report[key.iteration].log.push_back(ToBoundaryTensor(key, micro_batches));
  }
  for (auto& [iteration, ledger] : report) ledger.iteration = iteration;
  return report;
}

}  // namespace recycle
