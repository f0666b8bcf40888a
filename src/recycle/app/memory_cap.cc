#include "recycle/app/memory_cap.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/app/config_values.h"
#include "recycle/app/numbers.h"
#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/plan/nearest.h"
#include "recycle/planner/cost_options.h"

namespace recycle {
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
                         const std::map<WorkerId, double>& snapshot_bytes, CostProfile& costs) {
  if (cap.kind != MemoryCap::Kind::kAuto) return ApplyMemoryCap(ToString(cap), parallel, costs);
  RC_CHECK(parallel.virtual_stages == 1) << "jobs have one stage per worker";
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    StageCosts& stage = costs.stages[i];
    double snapshots = 0;
    for (const auto& [worker, bytes] : snapshot_bytes) {
      if (Index(worker.stage.value()) == i) snapshots = std::max(snapshots, bytes);
    }
    const double capacity = device_bytes - stage.state_bytes - snapshots;
    if (capacity < stage.activation_bytes) {
      return absl::InvalidArgumentError(fmt::format(
          "schedule.memory_cap is auto, but stage {} needs {:.0f} MB for its state, {:.0f} MB for "
          "snapshots and {:.0f} MB for one micro-batch while a worker has {:.0f} MB; the nearest "
          "valid choice is {}a smaller batch.micro_batch_size, a smaller model or fewer workers on "
          "this machine",
          i, stage.state_bytes / 1e6, snapshots / 1e6, stage.activation_bytes / 1e6,
          device_bytes / 1e6, snapshots > 0 ? "resilience.snapshot_every 0, " : ""));
    }
    stage.capacity_bytes = capacity;
  }
  return OkStatus();
}

}  // namespace recycle
