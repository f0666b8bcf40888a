#include "recycle/executor/micro_batch_results.h"

#include <fmt/format.h>

#include <algorithm>

namespace recycle {
namespace {

// Slots of one micro-batch; the pipeline is stored + 1, so that 0 says "not run".
constexpr std::size_t kLoss = 0;
constexpr std::size_t kTokens = 1;
constexpr std::size_t kExecutedBy = 2;
constexpr std::size_t kSlots = 3;

}  // namespace

MicroBatchResults::MicroBatchResults(int count)
    : values_(static_cast<std::size_t>(count) * kSlots + 1) {}

void MicroBatchResults::Clear() { std::fill(values_.begin(), values_.end(), 0.0); }

void MicroBatchResults::Record(int micro_batch, PipelineId executed_by, double loss_sum,
                               std::int64_t tokens) {
  double* slots = &values_[static_cast<std::size_t>(micro_batch) * kSlots];
  slots[kLoss] += loss_sum;
  slots[kTokens] += static_cast<double>(tokens);
  slots[kExecutedBy] += executed_by.value() + 1;
}

void MicroBatchResults::SetStopWanted() { values_.back() = 1.0; }

StatusOr<IterationResults> DecodeResults(std::span<const double> sum, int micro_batches,
                                         std::int64_t tokens) {
  IterationResults results;
  results.stop_wanted = sum.back() > 0;
  const std::size_t count = (sum.size() - 1) / kSlots;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const double> slots = sum.subspan(i * kSlots, kSlots);
    const auto index = static_cast<std::int32_t>(i);
    const MicroBatch micro_batch{PipelineId(index / micro_batches), index % micro_batches};
    const auto found = static_cast<std::int64_t>(slots[kTokens]);
    if (found != tokens) {
      return absl::DataLossError(fmt::format(
          "micro-batch {} counts {} tokens in the reduced results, not {}: it was not run exactly "
          "once",
          ToString(micro_batch), found, tokens));
    }
    results.micro_batches.push_back(
        {.micro_batch = micro_batch,
         .executed_by = PipelineId(static_cast<std::int32_t>(slots[kExecutedBy]) - 1),
         .loss_sum = slots[kLoss],
         .tokens = found});
  }
  return results;
}

}  // namespace recycle
