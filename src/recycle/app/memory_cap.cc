#include "recycle/app/memory_cap.h"

#include <fmt/format.h>

#include "recycle/app/numbers.h"
#include "recycle/base/check.h"

namespace recycle {
namespace {

// What one micro-batch holds on a worker, and the state of the worker's stages.
struct WorkerBytes {
  double activation = 0;
  double state = 0;
};

std::vector<WorkerBytes> BytesPerColumn(const Parallelism& parallel, const CostProfile& costs) {
  std::vector<WorkerBytes> columns(static_cast<std::size_t>(parallel.pipeline));
  for (int s = 0; s < parallel.num_stages(); ++s) {
    WorkerBytes& column = columns[static_cast<std::size_t>(parallel.Column(StageId(s)).value())];
    column.activation += costs.stages[static_cast<std::size_t>(s)].activation_bytes;
    column.state += costs.stages[static_cast<std::size_t>(s)].state_bytes;
  }
  return columns;
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

StatusOr<MemoryCap> ParseMemoryCap(std::string_view text, std::string_view name) {
  if (text == "none") return MemoryCap{MemoryCap::Kind::kNone};
  if (text == "auto") return MemoryCap{MemoryCap::Kind::kAuto};
  if (text == "1f1b") return MemoryCap{MemoryCap::Kind::kOneFOneB};
  const std::optional<double> number = ParseReal(text);
  if (number && *number >= 1) return MemoryCap{MemoryCap::Kind::kMicroBatches, *number};
  return absl::InvalidArgumentError(
      fmt::format("{} is {}, but it must be auto, none, 1f1b or a number of 1 or more (a worker "
                  "holds at least one micro-batch); the nearest valid choice is {}",
                  name, text, number ? "1" : "none"));
}

Status ApplyMemoryCap(const MemoryCap& cap, const Parallelism& parallel, double device_bytes,
                      CostProfile& costs) {
  RC_CHECK(costs.stages.size() == static_cast<std::size_t>(parallel.num_stages()));
  const std::vector<WorkerBytes> columns = BytesPerColumn(parallel, costs);
  for (int i = 0; i < parallel.pipeline; ++i) {
    const WorkerBytes& bytes = columns[static_cast<std::size_t>(i)];
    std::optional<double>& capacity = costs.stages[static_cast<std::size_t>(i)].capacity_bytes;
    switch (cap.kind) {
      case MemoryCap::Kind::kNone:
        capacity.reset();
        break;
      case MemoryCap::Kind::kOneFOneB:
        capacity = (parallel.pipeline - i) * bytes.activation;
        break;
      case MemoryCap::Kind::kMicroBatches:
        capacity = cap.micro_batches * bytes.activation;
        break;
      case MemoryCap::Kind::kAuto:
        capacity = device_bytes - bytes.state;
        if (*capacity < bytes.activation) {
          return absl::InvalidArgumentError(fmt::format(
              "stage {} needs {:.0f} MB for its state and {:.0f} MB for one micro-batch, but a "
              "worker has {:.0f} MB; the nearest valid choice is a smaller model, a smaller "
              "batch.micro_batch_size or fewer workers on this machine",
              i, bytes.state / 1e6, bytes.activation / 1e6, device_bytes / 1e6));
        }
        break;
    }
  }
  return OkStatus();
}

}  // namespace recycle
