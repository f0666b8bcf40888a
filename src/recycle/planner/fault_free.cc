#include "recycle/planner/fault_free.h"

#include <fmt/format.h>

#include <utility>

#include "recycle/base/check.h"

namespace recycle {

StatusOr<Order> MakeFaultFree(const FlatJob& job, std::string_view name,
                              const ColumnSequence& sequence) {
  std::vector<std::vector<std::uint32_t>> sequences(static_cast<std::size_t>(job.num_workers()));
  std::vector<std::int32_t> pipeline(static_cast<std::size_t>(job.num_slots()));
  for (int slot = 0; slot < job.num_slots(); ++slot) {
    pipeline[static_cast<std::size_t>(slot)] = job.MicroBatchAt(slot) % job.num_pipelines;
  }
  for (int column = 0; column < job.num_columns; ++column) {
    RC_CHECK(job.live[static_cast<std::size_t>(column)].size() ==
             static_cast<std::size_t>(job.num_pipelines))
        << name << " is fault-free";
    for (const PipelineAction& action : sequence(column)) {
      for (int k = 0; k < job.num_pipelines; ++k) {
        const int slot = (action.m * job.num_pipelines + k) * job.num_stages + action.stage;
        sequences[static_cast<std::size_t>(column * job.num_pipelines + k)].push_back(
            Order::Op(slot, action.kind));
      }
    }
  }
  RC_ASSIGN_OR_RETURN(Order order, OrderFromSequences(job, sequences, std::move(pipeline)));
  if (FitsMemory(job, order)) return order;
  return absl::FailedPreconditionError(
      fmt::format("no plan: method {} holds more micro-batches than --memory-cap (capacity_bytes) "
                  "allows; the nearest valid choice is method adaptive",
                  name));
}

}  // namespace recycle
