#include "recycle/app/job_conversion.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "recycle/app/config_values.h"
#include "recycle/app/memory_cap.h"
#include "recycle/app/profile_file.h"
#include "recycle/app/snapshot_budget.h"
#include "recycle/app/standing_memory.h"

namespace recycle {
namespace {

// A method that only knows whole jobs cannot re-route.
bool NeedsEveryWorker(Method method) {
  return method != Method::kAdaptive && method != Method::kNaive && method != Method::kExact;
}

Status BadProfile(const JobConfig& config, const std::string& what) {
  return absl::InvalidArgumentError(
      fmt::format("device.profile: {}: {}", config.device.profile, what));
}

// Memory stays as it is.
void ReplaceDurations(const CostProfile& by, CostProfile& costs) {
  costs.send_forward = by.send_forward;
  costs.send_backward = by.send_backward;
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    StageCosts& stage = costs.stages[i];
    stage.forward = by.stages[i].forward;
    stage.backward_input = by.stages[i].backward_input;
    stage.backward_weight = by.stages[i].backward_weight;
    stage.optimizer = by.stages[i].optimizer;
    stage.all_reduce = by.stages[i].all_reduce;
  }
}

}  // namespace

ModelShape ModelShapeOf(const JobConfig& config) {
  return {.num_blocks = config.model.layers,
          .hidden = config.model.hidden,
          .heads = config.model.heads,
          .sequence = config.model.sequence,
          .vocabulary = config.data.vocabulary,
          .tied = config.model.tied,
          .micro_batch_size = config.batch.micro_batch_size};
}

Parallelism ParallelismOf(const JobConfig& config) {
  return {.data = config.parallel.data,
          .pipeline = config.parallel.pipeline,
          .tensor = config.parallel.tensor};
}

StatusOr<std::vector<LayerRange>> LayersOf(const JobConfig& config) {
  return SplitLayers(ModelShapeOf(config), config.parallel.pipeline);
}

CoordinatorOptions CoordinatorOptionsOf(const JobConfig& config) {
  CoordinatorOptions options;
  options.parallel = ParallelismOf(config);
  options.micro_batches = config.batch.micro_batches;
  options.iterations = config.train.iterations;
  options.tied = config.model.tied;
  options.reproducible = config.train.reproducible;
  options.checkpoints = config.checkpoint.every > 0;
  options.snapshots = SnapshotEvery(config) > 0;
  options.hosts = config.launch.agents;
  options.respawns = config.resilience.respawn_s.has_value();
  options.role_changes = config.resilience.role_changes;
  if (config.resilience.copy_mb_per_s) {
    options.copy_bytes_per_second = *config.resilience.copy_mb_per_s * 1e6;
  }
  options.slow_factor = config.resilience.slow_factor;
  options.failure_timeout = std::chrono::milliseconds(config.resilience.failure_timeout_ms);
  options.join_timeout = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(config.launch.join_timeout_s));
  return options;
}

StatusOr<CostProfile> PacedCostsOf(const JobConfig& config) {
  const StatusOr<JobProfile> profile =
      ReadJobProfile(config.device.profile, /*model=*/"", config.parallel.pipeline);
  if (!profile.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("device.profile: ", profile.status().message()));
  }
  const CostProfile& costs = profile->costs;
  if (std::ssize(costs.stages) != config.parallel.pipeline) {
    return BadProfile(config, fmt::format("it has costs of {} stages, but parallel.pipeline is {}, "
                                          "and every stage needs its own",
                                          costs.stages.size(), config.parallel.pipeline));
  }
  if (costs.unit != "ms") {
    return BadProfile(config, fmt::format("its unit is {}, but it must be ms, for its actions pass "
                                          "in real time",
                                          Quoted(costs.unit)));
  }
  return costs;
}

bool PlansStaggeredSteps(std::string_view method) {
  return method != MethodText(Method::kGPipe) && method != MethodText(Method::kOneFOneB) &&
         method != MethodText(Method::kNaive);
}

bool HasStaggeredSteps(const JobConfig& config) {
  return config.schedule.staggered && PlansStaggeredSteps(config.schedule.method);
}

StatusOr<PlanRequest> PlanRequestOf(const JobConfig& config, const PlanQuestion& question,
                                    double device_bytes) {
  PlanRequest request;
  request.parallel = ParallelismOf(config);
  request.micro_batches = config.batch.micro_batches;
  request.failed = question.failed;
  request.slow = question.slow;
  request.options = {.decoupled = config.schedule.decoupled,
                     .staggered = HasStaggeredSteps(config)};
  RC_ASSIGN_OR_RETURN(request.method, ParseMethod(config.schedule.method));
  if (!question.failed.empty() || !question.slow.empty()) {
    if (NeedsEveryWorker(request.method)) request.method = Method::kAdaptive;
    request.effort = Effort::kOnline;
  }
  RC_ASSIGN_OR_RETURN(const std::vector<LayerRange> layers, LayersOf(config));
  request.costs = CostsFromShape(ModelShapeOf(config), layers, kFlopsPerSecond);
  if (config.device.is_paced()) {
    RC_ASSIGN_OR_RETURN(const CostProfile paced, PacedCostsOf(config));
    ReplaceDurations(paced, request.costs);
  }
  if (!question.measured.empty()) {
    request.costs = WithMeasured(std::move(request.costs), question.measured);
  }
  RC_RETURN_IF_ERROR(ApplyJobMemoryCap(
      config.schedule.memory_cap, request.parallel, device_bytes,
      StandingMemoryOf(config, LiveWorkers(request.parallel, question.failed), request.costs),
      request.costs));
  return request;
}

double WorkerMemoryBytes(const JobConfig& config) {
  const double machine_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return machine_bytes / ParallelismOf(config).num_workers();
}

}  // namespace recycle
