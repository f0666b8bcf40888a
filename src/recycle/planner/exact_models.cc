#include "recycle/planner/exact_models.h"

#include <algorithm>
#include <utility>

#include "recycle/base/index.h"

namespace recycle {
namespace {

// The backward that goes on to the stage before.
ActionKind ChainKind(const FlatJob& job) {
  return job.decoupled ? ActionKind::kBackwardInput : ActionKind::kBackward;
}

}  // namespace

std::vector<ActionKind> KindsOf(const FlatJob& job) {
  if (!job.decoupled) return {ActionKind::kForward, ActionKind::kBackward};
  return {ActionKind::kForward, ActionKind::kBackwardInput, ActionKind::kBackwardWeight};
}

double BytesTaken(const StageCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return costs.activation_bytes;
    case ActionKind::kBackwardInput:
      return costs.deferred_bytes - costs.activation_bytes;
    case ActionKind::kBackwardWeight:
      return -costs.deferred_bytes;
    case ActionKind::kBackward:
      return -costs.activation_bytes;
    case ActionKind::kReduceGrad:
    case ActionKind::kValidate:
    case ActionKind::kStep:
      break;
  }
  return 0;
}

std::vector<Precedence> PrecedencesOf(const FlatJob& job) {
  std::vector<Precedence> rows;
  for (int slot = 0; slot < job.num_slots(); ++slot) {
    const int stage = job.StageAt(slot);
    const std::uint32_t forward = Order::Op(slot, ActionKind::kForward);
    const std::uint32_t chain = Order::Op(slot, ChainKind(job));
    rows.push_back({forward, chain, 0});
    if (job.decoupled) rows.push_back({chain, Order::Op(slot, ActionKind::kBackwardWeight), 0});
    if (stage + 1 == job.num_stages) continue;
    rows.push_back(
        {forward, Order::Op(slot + 1, ActionKind::kForward), job.send_forward[Index(stage)]});
    rows.push_back({Order::Op(slot + 1, ChainKind(job)), chain, job.send_backward[Index(stage)]});
  }
  return rows;
}

int TwinOf(const FlatJob& job, const Candidates& candidates, int micro_batch) {
  for (int other = micro_batch + 1; other < job.num_micro_batches; ++other) {
    bool same = true;
    for (int stage = 0; stage < job.num_stages && same; ++stage) {
      same = candidates[Index(micro_batch * job.num_stages + stage)] ==
             candidates[Index(other * job.num_stages + stage)];
    }
    if (same) return other;
  }
  return -1;
}

std::optional<Order> OrderFromStarts(const FlatJob& job,
                                     const std::map<std::uint32_t, double>& starts,
                                     std::vector<std::int32_t> pipeline) {
  std::vector<std::vector<std::uint32_t>> sequences(Index(job.num_workers()));
  std::vector<std::pair<double, std::uint32_t>> by_start;
  by_start.reserve(starts.size());
  for (const auto& [op, start] : starts) by_start.emplace_back(start, op);
  std::stable_sort(by_start.begin(), by_start.end());
  for (const auto& [start, op] : by_start) {
    const int slot = Order::SlotOf(op);
    sequences[Index(job.WorkerOf(job.StageAt(slot), pipeline[Index(slot)]))].push_back(op);
  }
  StatusOr<Order> order = OrderFromSequences(job, sequences, std::move(pipeline));
  if (!order.ok() || !CheckOrder(job, *order).ok()) return std::nullopt;
  return *std::move(order);
}

}  // namespace recycle
