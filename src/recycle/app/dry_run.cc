#include "recycle/app/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "recycle/app/job_conversion.h"
#include "recycle/app/plan_figures.h"
#include "recycle/app/snapshot_budget.h"
#include "recycle/app/standing_memory.h"
#include "recycle/plan/pictures.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/validate.h"

namespace recycle {
namespace {

constexpr double kMega = 1e6;
constexpr std::size_t kMostActionsShown = 400;  // a grid beyond that is no help in a terminal

struct WorkerMemory {
  WorkerId worker;
  LayerRange layers;
  double parameter_bytes = 0;
  StandingMemory standing;
  double activation_bytes = 0;  // peak while the plan runs
  double log_bytes = 0;         // of an iteration's boundary log, what stays in memory
  double total() const { return standing.total() + activation_bytes + log_bytes; }
};

// What a worker sends in an iteration, and keeps until all are past it; beyond
// resilience.log_bytes it goes to a file.
double LogBytes(const WorkerSchedule& schedule, const Plan& plan, double most) {
  double bytes = 0;
  for (const Action& action : schedule.actions) {
    const int stage = action.stage.value();
    const double boundary = plan.costs.stages[static_cast<std::size_t>(stage)].boundary_bytes;
    const bool sends_up = action.kind == ActionKind::kForward;
    const bool sends_down =
        action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackward;
    if (sends_up && stage + 1 < plan.parallel.num_stages()) bytes += boundary;
    if (sends_down && stage > 0) bytes += boundary;
  }
  return std::min(bytes, most);
}

StatusOr<std::vector<WorkerMemory>> MemoryPerWorker(const JobConfig& config, const Plan& plan) {
  RC_ASSIGN_OR_RETURN(const std::vector<LayerRange> layers, LayersOf(config));
  RC_ASSIGN_OR_RETURN(
      const PlanRequest request,
      PlanRequestOf(config, {.failed = plan.failed, .slow = plan.slow}, WorkerMemoryBytes(config)));
  Plan sized = plan;  // a plan file may have been written with other costs; sizes are the job's
  sized.costs = request.costs;
  const std::vector<double> peaks = PeakMemory(sized);
  const std::map<WorkerId, StandingMemory> standing =
      StandingMemoryOf(config, LiveWorkers(plan.parallel, plan.failed), request.costs);
  std::vector<WorkerMemory> memory;
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const WorkerId worker = plan.workers[w].worker;
    const auto stage = static_cast<std::size_t>(worker.stage.value());
    memory.push_back(
        {worker, layers[stage], request.costs.stages[stage].parameter_bytes, standing.at(worker),
         peaks[w],
         LogBytes(plan.workers[w], sized, static_cast<double>(config.resilience.log_bytes))});
  }
  return memory;
}

std::string LayersText(const LayerRange& layers) {
  return layers.end - layers.begin == 1 ? std::to_string(layers.begin)
                                        : fmt::format("{}-{}", layers.begin, layers.end - 1);
}

int NumLayers(const std::vector<WorkerMemory>& memory) {
  int most = 0;
  for (const WorkerMemory& worker : memory) most = std::max(most, worker.layers.end);
  return most;
}

std::string SnapshotText(int every) {
  return every == 0 ? "never made" : fmt::format("twice each, made every {} iterations", every);
}

std::string AsText(const std::vector<WorkerMemory>& memory, const Plan& plan, double device_bytes,
                   int every) {
  std::string text =
      fmt::format("{:>8} {:>8} {:>15} {:>10} {:>14} {:>16} {:>8} {:>8} {:>12} {:>8} {:>10}\n",
                  "worker", "layers", "parameters MB", "state MB", "gradients MB", "activations MB",
                  "log MB", "save MB", "snapshots MB", "undo MB", "total MB");
  double sum = 0;
  for (const WorkerMemory& worker : memory) {
    const StandingMemory& standing = worker.standing;
    text += fmt::format(
        "{:>8} {:>8} {:>15.1f} {:>10.1f} {:>14.1f} {:>16.1f} {:>8.1f} {:>8.1f} {:>12.1f} "
        "{:>8.1f} {:>10.1f}\n",
        ToString(worker.worker), LayersText(worker.layers), worker.parameter_bytes / kMega,
        standing.state_bytes / kMega, standing.gradient_bytes / kMega,
        worker.activation_bytes / kMega, worker.log_bytes / kMega, standing.save_bytes / kMega,
        standing.snapshot_bytes / kMega, standing.undo_bytes / kMega, worker.total() / kMega);
    sum += worker.total();
  }
  text += fmt::format("all workers: {:.1f} MB; this machine has {:.0f} MB for each of them\n",
                      sum / kMega, device_bytes / kMega);
  text += fmt::format(
      "layers: 0 is the embedding, {} the head; state: parameters with the optimizer's moments;\n"
      "gradients: a worker's own sums, and the stage's (train.reproducible makes the former "
      "larger); "
      "log: what\nit sent, kept in case a peer dies; save: its copy for a checkpoint; snapshots: "
      "its "
      "stage's state and\nthat of a stage it holds, {}; undo: the state before a step\nthat may "
      "turn "
      "out wrong (schedule.staggered)\n\n",
      NumLayers(memory) - 1, SnapshotText(every));
  std::size_t num_actions = 0;
  for (const WorkerSchedule& worker : plan.workers) num_actions += worker.actions.size();
  if (num_actions <= kMostActionsShown) text += PlanToGrid(plan) + "\n";
  return text + FiguresAsText(plan);
}

std::string AsJson(const std::vector<WorkerMemory>& memory, const Plan& plan, double device_bytes,
                   int every) {
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const WorkerMemory& worker : memory) {
    const StandingMemory& standing = worker.standing;
    workers.push_back({{"worker", ToString(worker.worker)},
                       {"layers", {worker.layers.begin, worker.layers.end}},
                       {"parameter_bytes", worker.parameter_bytes},
                       {"state_bytes", standing.state_bytes},
                       {"gradient_bytes", standing.gradient_bytes},
                       {"activation_bytes", worker.activation_bytes},
                       {"log_bytes", worker.log_bytes},
                       {"save_bytes", standing.save_bytes},
                       {"snapshot_bytes", standing.snapshot_bytes},
                       {"undo_bytes", standing.undo_bytes},
                       {"total_bytes", worker.total()}});
  }
  const nlohmann::ordered_json report = {{"workers", workers},
                                         {"device_bytes", device_bytes},
                                         {"snapshot_every", every},
                                         {"plan", nlohmann::ordered_json::parse(PlanToJson(plan))}};
  return report.dump() + "\n";
}

// A plan file fits a job if both mean the same micro-batches and workers.
Status CheckFits(const Plan& plan, const JobConfig& config, const std::string& path) {
  const Parallelism parallel = ParallelismOf(config);
  const auto refuse = [&path](const std::string& what, int value, int wanted) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is {}, but it must be {} as in the job", path, what, value, wanted));
  };
  if (plan.parallel.data != parallel.data) {
    return refuse("parallel.data", plan.parallel.data, parallel.data);
  }
  if (plan.parallel.pipeline != parallel.pipeline) {
    return refuse("parallel.pipeline", plan.parallel.pipeline, parallel.pipeline);
  }
  if (plan.parallel.virtual_stages != 1) {
    return refuse("parallel.virtual", plan.parallel.virtual_stages, 1);
  }
  if (plan.micro_batches != config.batch.micro_batches) {
    return refuse("micro_batches", plan.micro_batches, config.batch.micro_batches);
  }
  if (!plan.failed.empty() || !plan.initial.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": a job starts with all its workers, but the plan has failed ones or is for the rest "
        "of an iteration; make it without --failed"));
  }
  if (plan.options.staggered != config.schedule.staggered) {
    std::string text = fmt::format(
        "{}: options.staggered is {}, but it must be schedule.staggered of the job, {}; set "
        "schedule.staggered={}",
        path, plan.options.staggered, config.schedule.staggered, plan.options.staggered);
    if (PlansStaggeredSteps(plan.method)) {
      text += fmt::format(", or make the plan {} --no-stagger",
                          plan.options.staggered ? "with" : "without");
    }
    return absl::InvalidArgumentError(text);
  }
  return OkStatus();
}

}  // namespace

StatusOr<Plan> FirstPlan(const JobConfig& config) {
  if (config.schedule.plan.empty()) {
    RC_ASSIGN_OR_RETURN(const PlanRequest request,
                        PlanRequestOf(config, {}, WorkerMemoryBytes(config)));
    return MakePlan(request);
  }
  RC_ASSIGN_OR_RETURN(Plan plan, ReadPlanFile(config.schedule.plan));
  RC_RETURN_IF_ERROR(CheckFits(plan, config, config.schedule.plan));
  const Status legal = Validate(plan);
  if (!legal.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.schedule.plan, " is not a legal plan: ", legal.message(),
                     "; `recycle check ", config.schedule.plan, "` shows all its errors"));
  }
  return plan;
}

StatusOr<std::string> DryRunReport(const JobConfig& config, const Plan& plan, bool json) {
  RC_ASSIGN_OR_RETURN(const std::vector<WorkerMemory> memory, MemoryPerWorker(config, plan));
  const double device_bytes = WorkerMemoryBytes(config);
  const int every = SnapshotEvery(config);
  return json ? AsJson(memory, plan, device_bytes, every)
              : AsText(memory, plan, device_bytes, every);
}

}  // namespace recycle
