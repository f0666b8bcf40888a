#include "recycle/app/memory_cap.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "recycle/app/config_values.h"
#include "recycle/app/numbers.h"
#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/plan/nearest.h"
#include "recycle/planner/cost_options.h"

namespace recycle {
namespace {

// The most micro-batches held that make a plan shorter: what holding W's back can gain is gained
// with four for each stage, and more as sends are slow ("Memory" in docs/planner.md).
double UsefulMicroBatches(const Parallelism& parallel, const CostProfile& costs) {
  constexpr double kPerStage = 4;
  Ticks send = 0;
  for (std::size_t i = 0; i < costs.send_forward.size(); ++i) {
    send = std::max(send, costs.send_forward[i] + costs.send_backward[i]);
  }
  Ticks work = std::numeric_limits<Ticks>::max();
  for (const StageCosts& stage : costs.stages) {
    work = std::min(work, stage.forward + stage.backward_input + stage.backward_weight);
  }
  const double hop = work > 0 ? static_cast<double>(send) / static_cast<double>(work) : 0;
  return kPerStage * parallel.pipeline * (1 + hop);
}

}  // namespace

std::string ToString(const MemoryCap& cap) {
  switch (cap.kind) {
    case MemoryCap::Kind::kNone:
      return "none";
    case MemoryCap::Kind::kAuto:
      return "auto";
    case MemoryCap::Kind::kOneFOneB:
      return "1f1b";
    case MemoryCap::Kind::kMicroBatches:
      return fmt::format("{}", cap.micro_batches);
  }
  return "none";
}

StatusOr<MemoryCap> ParseMemoryCap(std::string_view text, std::string_view name, bool allow_auto) {
  if (text == "none") return MemoryCap{MemoryCap::Kind::kNone};
  if (text == "auto" && allow_auto) return MemoryCap{MemoryCap::Kind::kAuto};
  if (text == "1f1b") return MemoryCap{MemoryCap::Kind::kOneFOneB};
  const std::optional<double> number = ParseReal(text);
  if (number && *number >= 1) return MemoryCap{MemoryCap::Kind::kMicroBatches, *number};
  return absl::InvalidArgumentError(fmt::format(
      "{} is {}, but it must be {}none, 1f1b or a number of 1 or more (a worker holds at least one "
      "micro-batch); the nearest valid choice is {}",
      name, Shortened(std::string(text)), allow_auto ? "auto, " : "",
      number ? "1" : NearestName(text, {"none", "1f1b"})));
}

Status ApplyJobMemoryCap(const MemoryCap& cap, const Parallelism& parallel, double device_bytes,
                         const std::map<WorkerId, StandingMemory>& standing, CostProfile& costs) {
  if (cap.kind != MemoryCap::Kind::kAuto) return ApplyMemoryCap(ToString(cap), parallel, costs);
  RC_CHECK(parallel.virtual_stages == 1) << "jobs have one stage per worker";
  const double useful = UsefulMicroBatches(parallel, costs);
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    StageCosts& stage = costs.stages[i];
    StandingMemory most;
    for (const auto& [worker, memory] : standing) {
      if (Index(worker.stage.value()) == i && memory.total() > most.total()) most = memory;
    }
    const double spare = device_bytes - most.total();
    if (spare < stage.activation_bytes) {
      return absl::InvalidArgumentError(fmt::format(
          "schedule.memory_cap is auto, but stage {} needs {:.0f} MB for its state, {:.0f} MB for "
          "gradients, {:.0f} MB for snapshots, {:.0f} MB for other copies of the state and {:.0f} "
          "MB for one micro-batch while a worker has {:.0f} MB; the nearest valid choice is {}a "
          "smaller batch.micro_batch_size, a smaller model or fewer workers on this machine",
          i, most.state_bytes / 1e6, most.gradient_bytes / 1e6, most.snapshot_bytes / 1e6,
          (most.save_bytes + most.undo_bytes) / 1e6, stage.activation_bytes / 1e6,
          device_bytes / 1e6, most.snapshot_bytes > 0 ? "resilience.snapshot_every 0, " : ""));
    }
    stage.capacity_bytes = std::min(spare, useful * stage.activation_bytes);
  }
  return OkStatus();
}

}  // namespace recycle
