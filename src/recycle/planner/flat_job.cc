#include "recycle/planner/flat_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "recycle/base/check.h"

namespace recycle {
namespace {

// Slot numbers times four must fit the 32-bit operation ids of an Order and the scheduler's heap
// keys.
constexpr int kSlotBits = 28;
constexpr std::int64_t kMaxSlots = std::int64_t{1} << kSlotBits;
// Times of up to 1,000 passes over a whole job must fit Ticks.
constexpr double kMaxJobTicks = 9e18 / 1024;

Status Positive(int value, std::string_view name) {
  if (value >= 1) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}, but must be at least 1; the nearest valid choice is 1", name, value));
}

// So many micro-batches per pipeline fit the slot numbers; below 1 if dp and pp alone are too many.
double MostMicroBatches(const Parallelism& parallel) {
  return std::floor(static_cast<double>(kMaxSlots - 1) / parallel.data / parallel.pipeline /
                    parallel.virtual_stages);
}

Status CheckSizes(const PlanRequest& request) {
  const Parallelism& parallel = request.parallel;
  RC_RETURN_IF_ERROR(Positive(parallel.data, "data parallelism (dp)"));
  RC_RETURN_IF_ERROR(Positive(parallel.pipeline, "pipeline parallelism (pp)"));
  RC_RETURN_IF_ERROR(Positive(parallel.tensor, "tensor parallelism (tp)"));
  RC_RETURN_IF_ERROR(Positive(parallel.virtual_stages, "virtual stages"));
  RC_RETURN_IF_ERROR(Positive(request.micro_batches, "micro_batches"));
  if (parallel.placement == Placement::kV && parallel.virtual_stages != 2) {
    return absl::InvalidArgumentError(
        fmt::format("virtual stages are {}, but placement v has 2; the nearest valid choice is 2",
                    parallel.virtual_stages));
  }
  const double slots = static_cast<double>(parallel.data) * request.micro_batches *
                       parallel.pipeline * parallel.virtual_stages;
  if (slots >= static_cast<double>(kMaxSlots)) {
    return absl::InvalidArgumentError(fmt::format(
        "dp * micro_batches * stages is {:.3g}, but must be below {}; the nearest valid "
        "choice is {:.0f} micro-batches",
        slots, kMaxSlots, MostMicroBatches(parallel)));
  }
  return OkStatus();
}

Status CheckTicks(Ticks value, std::string_view name, std::size_t index) {
  if (value >= 0) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} of entry {} is {}, must not be negative", name, index, ToUnits(value)));
}

Status CheckBytes(double value, std::string_view name, std::size_t stage) {
  if (std::isfinite(value) && value >= 0) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} of stage {} is {}, must be a finite number, 0 or more", name, stage, value));
}

Status CheckStage(const StageCosts& stage, std::size_t i) {
  RC_RETURN_IF_ERROR(CheckTicks(stage.forward, "forward", i));
  RC_RETURN_IF_ERROR(CheckTicks(stage.backward_input, "backward_input", i));
  RC_RETURN_IF_ERROR(CheckTicks(stage.backward_weight, "backward_weight", i));
  RC_RETURN_IF_ERROR(CheckTicks(stage.optimizer, "optimizer", i));
  RC_RETURN_IF_ERROR(CheckTicks(stage.all_reduce, "all_reduce", i));
  RC_RETURN_IF_ERROR(CheckBytes(stage.activation_bytes, "activation_bytes", i));
  RC_RETURN_IF_ERROR(CheckBytes(stage.deferred_bytes, "deferred_bytes", i));
  if (stage.deferred_bytes > stage.activation_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("deferred_bytes of stage {} is {}, but must not be above its "
                    "activation_bytes, of which it is what is left after I; the nearest valid "
                    "choice is {}",
                    i, stage.deferred_bytes, stage.activation_bytes));
  }
  if (stage.capacity_bytes.has_value()) {
    RC_RETURN_IF_ERROR(CheckBytes(*stage.capacity_bytes, "capacity_bytes", i));
  }
  return OkStatus();
}

Status CheckCosts(const PlanRequest& request) {
  const CostProfile& costs = request.costs;
  const auto num_stages = static_cast<std::size_t>(request.parallel.num_stages());
  if (costs.stages.size() != num_stages) {
    return absl::InvalidArgumentError(
        fmt::format("costs have {} stages, but must have {}, one entry per stage (pp * virtual "
                    "stages)",
                    costs.stages.size(), num_stages));
  }
  if (costs.send_forward.size() != num_stages - 1 || costs.send_backward.size() != num_stages - 1) {
    return absl::InvalidArgumentError(fmt::format(
        "send_forward has {} and send_backward {} entries, must have {} (one per boundary between "
        "stages)",
        costs.send_forward.size(), costs.send_backward.size(), num_stages - 1));
  }
  double total = 0;
  for (std::size_t i = 0; i < num_stages; ++i) {
    RC_RETURN_IF_ERROR(CheckStage(costs.stages[i], i));
    const StageCosts& stage = costs.stages[i];
    total += static_cast<double>(stage.forward) + static_cast<double>(stage.backward_input) +
             static_cast<double>(stage.backward_weight);
    if (i + 1 < num_stages) {
      RC_RETURN_IF_ERROR(CheckTicks(costs.send_forward[i], "send_forward", i));
      RC_RETURN_IF_ERROR(CheckTicks(costs.send_backward[i], "send_backward", i));
      total +=
          static_cast<double>(costs.send_forward[i]) + static_cast<double>(costs.send_backward[i]);
    }
  }
  double slowest = 1;
  for (const SlowWorker& slow : request.slow) slowest = std::max(slowest, slow.factor);
  total *= static_cast<double>(request.parallel.data) * request.micro_batches * slowest;
  for (const StageCosts& stage : costs.stages) {
    total += static_cast<double>(stage.optimizer) + static_cast<double>(stage.all_reduce);
  }
  if (!(total < kMaxJobTicks)) {
    return absl::InvalidArgumentError(fmt::format(
        "the durations of the whole job, its slowest worker {:g} times slower, add up to "
        "{:.3g} {}, but must stay below {:.3g}; state the costs in a larger unit",
        slowest, total / static_cast<double>(kTicksPerUnit), costs.unit,
        kMaxJobTicks / static_cast<double>(kTicksPerUnit)));
  }
  return OkStatus();
}

Status CheckPlace(WorkerId worker, const Parallelism& parallel, std::string_view what) {
  if (worker.pipeline.value() >= 0 && worker.pipeline.value() < parallel.data &&
      worker.stage.value() >= 0 && worker.stage.value() < parallel.pipeline) {
    return OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} worker {} does not exist: places are k:i with k below {} and i below {}",
                  what, ToString(worker), parallel.data, parallel.pipeline));
}

Status CheckPlaces(const PlanRequest& request) {
  std::set<WorkerId> failed;
  for (const WorkerId worker : request.failed) {
    RC_RETURN_IF_ERROR(CheckPlace(worker, request.parallel, "failed"));
    if (!failed.insert(worker).second) {
      return absl::InvalidArgumentError(
          fmt::format("failed worker {} is named twice, must be named once", ToString(worker)));
    }
  }
  std::set<WorkerId> slow;
  for (const SlowWorker& entry : request.slow) {
    RC_RETURN_IF_ERROR(CheckPlace(entry.worker, request.parallel, "slow"));
    if (!std::isfinite(entry.factor) || entry.factor <= 0) {
      return absl::InvalidArgumentError(
          fmt::format("slow factor of worker {} is {}, but must be a finite number above 0, such "
                      "as 1.5 for half "
                      "as long again; the nearest valid choice is 1",
                      ToString(entry.worker), entry.factor));
    }
    if (!slow.insert(entry.worker).second || failed.contains(entry.worker)) {
      return absl::InvalidArgumentError(
          fmt::format("slow worker {} is named twice or has failed, must be one live worker",
                      ToString(entry.worker)));
    }
  }
  return OkStatus();
}

// The capacity of a column is that of its lowest stage; one micro-batch must fit all its stages.
StatusOr<std::vector<double>> ColumnCapacities(const FlatJob& job) {
  std::vector<double> capacity(static_cast<std::size_t>(job.num_columns),
                               std::numeric_limits<double>::infinity());
  std::vector<double> needed(capacity.size(), 0);
  for (int stage = job.num_stages - 1; stage >= 0; --stage) {
    const StageCosts& costs = job.stages[static_cast<std::size_t>(stage)];
    const auto column = static_cast<std::size_t>(job.column[static_cast<std::size_t>(stage)]);
    needed[column] += costs.activation_bytes;
    capacity[column] = costs.capacity_bytes.has_value() ? *costs.capacity_bytes * kCapacitySlack
                                                        : std::numeric_limits<double>::infinity();
  }
  for (std::size_t column = 0; column < capacity.size(); ++column) {
    if (needed[column] > capacity[column]) {
      return absl::InvalidArgumentError(fmt::format(
          "capacity_bytes of stage {} is {:g}, but must hold one micro-batch; the nearest "
          "valid choice is {:g}",
          column, capacity[column], needed[column]));
    }
  }
  return capacity;
}

// Division by an invariant as a multiplication (Granlund and Montgomery, PLDI 1994): with 2^l >= d
// and f = ceil(2^(28 + l) / d), n * f exceeds n / d * 2^(28 + l) by less than 2^(28 + l) / d for n
// < 2^28.
void SetSlotDivision(FlatJob& job) {
  const auto divisor = static_cast<std::uint64_t>(job.num_stages);
  job.slot_shift = kSlotBits + static_cast<int>(std::bit_width(divisor - 1));
  job.slot_factor = ((std::uint64_t{1} << job.slot_shift) + divisor - 1) / divisor;
}

void FillDurations(FlatJob& job) {
  const auto dp = static_cast<std::size_t>(job.num_pipelines);
  job.durations.resize(static_cast<std::size_t>(job.num_stages) * dp);
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(job.num_stages); ++stage) {
    const StageCosts& costs = job.stages[stage];
    const std::array<Ticks, 4> planned = {costs.forward, costs.backward_input,
                                          costs.backward_weight,
                                          costs.backward_input + costs.backward_weight};
    for (std::size_t k = 0; k < dp; ++k) {
      std::array<Ticks, 4>& own = job.durations[stage * dp + k];
      own = planned;
      const double factor = job.slow[static_cast<std::size_t>(job.column[stage]) * dp + k];
      if (factor == 1.0) continue;
      for (Ticks& ticks : own) ticks = std::llround(static_cast<double>(ticks) * factor);
    }
  }
}

}  // namespace

StatusOr<FlatJob> MakeFlatJob(const PlanRequest& request) {
  RC_RETURN_IF_ERROR(CheckSizes(request));
  RC_RETURN_IF_ERROR(CheckPlaces(request));
  RC_RETURN_IF_ERROR(CheckCosts(request));
  const Parallelism& parallel = request.parallel;
  FlatJob job;
  job.num_pipelines = parallel.data;
  job.num_columns = parallel.pipeline;
  job.num_stages = parallel.num_stages();
  SetSlotDivision(job);
  job.micro_batches = request.micro_batches;
  job.num_micro_batches = parallel.data * request.micro_batches;
  job.decoupled = request.options.decoupled;
  job.staggered = request.options.staggered;
  job.stages = request.costs.stages;
  job.send_forward = request.costs.send_forward;
  job.send_forward.push_back(0);
  job.send_backward = request.costs.send_backward;
  job.send_backward.push_back(0);
  for (int stage = 0; stage < job.num_stages; ++stage) {
    job.column.push_back(parallel.Column(StageId(stage)).value());
  }
  RC_ASSIGN_OR_RETURN(job.capacity, ColumnCapacities(job));
  job.live.resize(static_cast<std::size_t>(job.num_columns));
  for (const WorkerId worker : LiveWorkers(parallel, request.failed)) {
    job.live[static_cast<std::size_t>(worker.stage.value())].push_back(worker.pipeline.value());
  }
  for (std::size_t column = 0; column < job.live.size(); ++column) {
    if (job.live[column].empty()) {
      return absl::FailedPreconditionError(
          fmt::format("no plan: stage {} has no live worker", column));
    }
  }
  job.slow.assign(static_cast<std::size_t>(job.num_workers()), 1.0);
  for (const SlowWorker& slow : request.slow) {
    job.slow[static_cast<std::size_t>(slow.worker.stage.value() * job.num_pipelines +
                                      slow.worker.pipeline.value())] = slow.factor;
    job.has_stragglers = job.has_stragglers || slow.factor != 1.0;
  }
  FillDurations(job);
  return job;
}

FlatJob WithLiveCounts(const FlatJob& job, const std::vector<int>& live_per_column) {
  RC_CHECK(live_per_column.size() == job.live.size());
  FlatJob result = job;
  result.has_stragglers = false;
  result.slow.assign(static_cast<std::size_t>(job.num_workers()), 1.0);
  for (std::size_t column = 0; column < job.live.size(); ++column) {
    RC_CHECK(live_per_column[column] >= 1 && live_per_column[column] <= job.num_pipelines);
    result.live[column].resize(static_cast<std::size_t>(live_per_column[column]));
    std::iota(result.live[column].begin(), result.live[column].end(), 0);
  }
  FillDurations(result);
  return result;
}

FlatJob SinglePipeline(const FlatJob& job, int micro_batches) {
  FlatJob result = job;
  result.num_pipelines = 1;
  result.micro_batches = micro_batches;
  result.num_micro_batches = micro_batches;
  return WithLiveCounts(result, std::vector<int>(job.live.size(), 1));
}

}  // namespace recycle
