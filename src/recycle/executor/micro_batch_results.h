// Loss, token count and executing pipeline of each micro-batch of an iteration, as a vector of
// doubles that rides in the last stage's gradient reduction: every worker fills the slots of what
// it ran, the sum over the stage has them all. So they become final with the step: a dead worker
// loses none, a repeated iteration doubles none. One more slot says how many workers were asked to
// stop.
//
//   results.Record(index, self.pipeline, loss_sum, tokens);
//   group.AllReduceSum(results.values(), sum);
//   StatusOr<IterationResults> all = DecodeResults(sum, micro_batches, tokens_per_micro_batch);
//
// Not thread-safe.
#ifndef RECYCLE_EXECUTOR_MICRO_BATCH_RESULTS_H_
#define RECYCLE_EXECUTOR_MICRO_BATCH_RESULTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class MicroBatchResults {
 public:
  // `count`: micro-batches of one iteration, DP * M.
  explicit MicroBatchResults(int count);

  void Clear();
  void Record(int micro_batch, PipelineId executed_by, double loss_sum, std::int64_t tokens);
  void SetStopWanted();
  std::span<const double> values() const { return values_; }

 private:
  std::vector<double> values_;
};

struct IterationResults {
  std::vector<MicroBatchResult> micro_batches;  // ascending by global index
  bool stop_wanted = false;                     // by any worker of the last stage
};

// Reads a summed vector; M micro-batches per pipeline. Error: kDataLoss unless every micro-batch
// was run exactly once, with `tokens` tokens.
StatusOr<IterationResults> DecodeResults(std::span<const double> sum, int micro_batches,
                                         std::int64_t tokens);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_MICRO_BATCH_RESULTS_H_
