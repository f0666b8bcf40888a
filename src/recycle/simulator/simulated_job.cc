#include "recycle/simulator/simulated_job.h"

#include <fmt/format.h>

#include <algorithm>

namespace recycle {

Status CheckSimulatedJob(const SimulatedJob& job) {
  Plan shape;
  shape.parallel = job.parallel;
  shape.micro_batches = job.micro_batches;
  shape.costs = job.costs;
  RC_RETURN_IF_ERROR(CheckPlanShape(shape));
  if (job.costs.unit != "ms") {
    return absl::InvalidArgumentError(
        fmt::format("the costs' unit is {}, must be ms: simulated time has units (hint: state the "
                    "durations in milliseconds)",
                    job.costs.unit));
  }
  const int tensor = job.parallel.tensor;
  if (job.gpus_per_node < tensor || job.gpus_per_node % tensor != 0) {
    return absl::InvalidArgumentError(
        fmt::format("--gpus-per-node: {} is not a multiple of {}, the GPUs of a worker; the "
                    "nearest valid choice is {}",
                    job.gpus_per_node, tensor,
                    std::max(1, (job.gpus_per_node + tensor / 2) / tensor) * tensor));
  }
  if (job.num_places() % job.places_per_node() != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "--gpus-per-node: {} gives every node {} workers, which do not divide the job's {}; the "
        "nearest valid choice is {}",
        job.gpus_per_node, job.places_per_node(), job.num_places(), tensor));
  }
  if (job.micro_batch_size < 1 || job.layers < 1 || !(job.parameters > 0)) {
    return absl::InvalidArgumentError(
        fmt::format("micro-batch size {}, layers {} and parameters {} must all be above 0",
                    job.micro_batch_size, job.layers, job.parameters));
  }
  const bool free =
      std::any_of(job.costs.stages.begin(), job.costs.stages.end(), [](const StageCosts& stage) {
        return stage.forward + stage.backward_input + stage.backward_weight == 0;
      });
  if (free) {
    return absl::InvalidArgumentError(
        "the costs of a stage are 0; an iteration must take time to be simulated");
  }
  return OkStatus();
}

}  // namespace recycle
