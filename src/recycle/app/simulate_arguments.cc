#include "recycle/app/simulate_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "recycle/app/memory_cap.h"
#include "recycle/app/plan_request.h"
#include "recycle/app/profile_file.h"
#include "recycle/base/file.h"
#include "recycle/planner/cost_options.h"
#include "recycle/simulator/memory_model.h"
#include "recycle/simulator/model_table.h"
#include "recycle/simulator/policies.h"
#include "recycle/simulator/random_failures.h"
#include "recycle/simulator/trace_file.h"

namespace recycle {
namespace {

constexpr double kDefaultHours = 720;  // of random failures: a month
constexpr int kOobleckLayersPerStage = 4;

Status CheckOptions(const SimulateArguments& arguments) {
  const bool from_model = !arguments.model.empty() && arguments.profile.empty();
  const int sources = static_cast<int>(!arguments.profile.empty()) +
                      static_cast<int>(!arguments.cost.empty()) + static_cast<int>(from_model);
  if (sources != 1) {
    return absl::InvalidArgumentError(
        fmt::format("{} of --profile FILE, --model NAME with --device NAME, and --cost COSTS are "
                    "given; exactly one must say what the job costs",
                    sources));
  }
  if (from_model != !arguments.device.empty()) {
    return absl::InvalidArgumentError(
        "--model and --device belong together: costs follow from both; the nearest valid choice is "
        "--model gpt3-6.7b --device a100-80g");
  }
  if (arguments.trace.empty() != arguments.mtbf_hours.has_value()) {
    return absl::InvalidArgumentError(
        "either --trace FILE or --mtbf-hours H says when nodes fail, and exactly one must be "
        "given");
  }
  return OkStatus();
}

StatusOr<CostProfile> UniformCostsOf(const SimulateArguments& arguments,
                                     const Parallelism& parallel) {
  const StatusOr<UniformCosts> uniform = ParseUniformCosts(arguments.cost);
  if (!uniform.ok()) return Named("--cost", uniform.status());
  StatusOr<CostProfile> costs = MakeUniformProfile(*uniform, parallel);
  if (!costs.ok()) return Named("--cost", costs.status());
  costs->unit = "ms";
  return costs;
}

Status FillFromModel(const SimulateArguments& arguments, SimulationSetup& setup) {
  SimulatedJob& job = setup.job;
  RC_ASSIGN_OR_RETURN(const ModelSpec model, FindModel(arguments.model));
  RC_ASSIGN_OR_RETURN(const DeviceSpec device, FindDevice(arguments.device));
  const ModelLayout layout{.parallel = job.parallel,
                           .micro_batch_size = job.micro_batch_size,
                           .sequence = arguments.sequence};
  const StatusOr<CostProfile> costs = CostsOfModel(model, device, layout);
  if (!costs.ok()) return Named("--model", costs.status());
  job.costs = *costs;
  job.model = model.name;
  job.parameters = model.parameters;
  job.layers = model.layers;
  job.copy_gb_per_s = device.link_gb_per_s;
  job.bamboo_fits = BambooBytes(model, layout) <= UsableBytes(device);
  const double fit = MicroBatchesThatFit(model, device, layout);
  setup.notes.push_back(fmt::format(
      "costs computed from {} on {} at {:.0f}% of its peak [ASSUMED], sequence {}, micro-batch {}",
      model.name, device.name, 100 * device.share_of_peak, layout.sequence,
      layout.micro_batch_size));
  setup.notes.push_back(fmt::format(
      "memory: {:.1f} micro-batches fit on a GPU{}; bamboo needs {:.1f} of {:.1f} GB", fit,
      fit < job.parallel.pipeline ? ", fewer than plain 1F1B holds at stage 0" : "",
      BambooBytes(model, layout) / 1e9, UsableBytes(device) / 1e9));
  return OkStatus();
}

Status FillFromProfile(const SimulateArguments& arguments, SimulationSetup& setup) {
  SimulatedJob& job = setup.job;
  const StatusOr<JobProfile> profile =
      ReadJobProfile(arguments.profile, arguments.model, job.parallel.pipeline);
  if (!profile.ok()) return Named("--profile", profile.status());
  job.costs = profile->costs;
  if (static_cast<int>(job.costs.stages.size()) != job.parallel.pipeline) {
    return absl::InvalidArgumentError(
        fmt::format("--pp: {} is not the {} stages of profile {}; the nearest valid choice is {}",
                    job.parallel.pipeline, job.costs.stages.size(), arguments.profile,
                    job.costs.stages.size()));
  }
  const std::optional<ProfiledModel>& model = profile->model;
  if (!model) return OkStatus();
  job.model = model->name;
  job.parameters = model->parameters;
  job.layers = model->layers;
  if (!arguments.micro_batch_size) job.micro_batch_size = model->micro_batch_size;
  setup.notes.push_back(
      fmt::format("costs of {} from {}: backward split into I : W = 1.05 : 0.85 [ASSUMED], sends "
                  "and all-reduce "
                  "cost nothing",
                  model->name, arguments.profile));
  return OkStatus();
}

StatusOr<SimulationSetup> MakeJob(const SimulateArguments& arguments) {
  SimulationSetup setup;
  SimulatedJob& job = setup.job;
  job.parallel = {.data = arguments.dp, .pipeline = arguments.pp, .tensor = arguments.tp};
  job.micro_batches = arguments.microbatches;
  job.micro_batch_size = arguments.micro_batch_size.value_or(1);
  job.gpus_per_node = arguments.gpus_per_node.value_or(arguments.tp);
  job.layers = kOobleckLayersPerStage * arguments.pp;
  if (!arguments.cost.empty()) {
    RC_ASSIGN_OR_RETURN(job.costs, UniformCostsOf(arguments, job.parallel));
  } else if (!arguments.profile.empty()) {
    RC_RETURN_IF_ERROR(FillFromProfile(arguments, setup));
  } else {
    RC_RETURN_IF_ERROR(FillFromModel(arguments, setup));
  }
  RC_RETURN_IF_ERROR(CheckSimulatedJob(job));

  setup.plans.parallel = job.parallel;
  setup.plans.micro_batches = job.micro_batches;
  setup.plans.costs = job.costs;
  const std::string cap =
      arguments.memory_cap.empty() ? std::to_string(arguments.pp) : arguments.memory_cap;
  RC_ASSIGN_OR_RETURN(const MemoryCap parsed,
                      ParseMemoryCap(cap, "--memory-cap", /*allow_auto=*/false));
  RC_RETURN_IF_ERROR(ApplyMemoryCap(ToString(parsed), job.parallel, setup.plans.costs));
  setup.notes.push_back(
      fmt::format("re-routing plans hold {} micro-batches a worker (--memory-cap)", cap));
  return setup;
}

StatusOr<FailureTrace> MakeTrace(const SimulateArguments& arguments, const SimulatedJob& job,
                                 double duration_s) {
  if (arguments.mtbf_hours) {
    return DrawFailures({.num_nodes = arguments.nodes.value_or(job.num_blocks()),
                         .mtbf_s = *arguments.mtbf_hours * kSecondsPerHour,
                         .mttr_s = arguments.mttr_hours * kSecondsPerHour,
                         .weibull_shape = arguments.weibull_shape,
                         .correlated = arguments.correlated,
                         .seed = arguments.seed},
                        duration_s);
  }
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(arguments.trace));
  TraceOptions options{.num_nodes = arguments.nodes, .curve = {.seed = arguments.seed}};
  if (arguments.trace_unit == "s") options.curve.seconds_per_unit = 1;
  if (arguments.trace_unit == "h") options.curve.seconds_per_unit = kSecondsPerHour;
  StatusOr<FailureTrace> trace = ReadTrace(text, options);
  if (!trace.ok()) return Named(fmt::format("trace {}", arguments.trace), trace.status());
  return trace;
}

StatusOr<JobTimeline> MakeTimeline(const SimulateArguments& arguments, const SimulatedJob& job,
                                   const PolicyConstants& constants) {
  std::optional<double> hours = arguments.hours;
  if (arguments.mtbf_hours && !hours) hours = kDefaultHours;
  const double start_s = arguments.start_h.value_or(0) * kSecondsPerHour;
  const double end_s = start_s + hours.value_or(0) * kSecondsPerHour;
  RC_ASSIGN_OR_RETURN(const FailureTrace trace, MakeTrace(arguments, job, end_s));
  TimelineOptions options{.num_blocks = job.num_blocks(),
                          .usable_after_s = constants.instance_usable_s};
  if (arguments.start_h) options.start_s = start_s;
  if (hours) options.duration_s = *hours * kSecondsPerHour;
  return MakeJobTimeline(trace, options);
}

StatusOr<std::vector<std::string_view>> ChoosePolicies(const std::string& text,
                                                       const SimulationSetup& setup) {
  if (text.empty()) return PolicyNamesFor(setup.job, setup.constants);
  std::vector<std::string_view> chosen;
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  const std::vector<std::string_view>& names = PolicyNames();
  for (const std::string& word : words) {
    // Refuses what is no policy, or none for this job.
    RC_RETURN_IF_ERROR(CheckPolicyName(word, setup.job, setup.constants));
    const std::string_view name = *std::find(names.begin(), names.end(), word);
    if (std::find(chosen.begin(), chosen.end(), name) != chosen.end()) {
      return absl::InvalidArgumentError(
          fmt::format("--policy: {} is named twice; name every policy once", word));
    }
    chosen.push_back(name);
  }
  return chosen;
}

}  // namespace

StatusOr<SimulationSetup> MakeSimulationSetup(const SimulateArguments& arguments) {
  RC_RETURN_IF_ERROR(CheckOptions(arguments));
  RC_ASSIGN_OR_RETURN(SimulationSetup setup, MakeJob(arguments));
  setup.constants = ConstantsFor(setup.job);
  for (const std::string& assignment : arguments.set) {
    RC_RETURN_IF_ERROR(SetConstant(assignment, setup.constants));
  }
  setup.notes.push_back(fmt::format(
      "constants of bamboo, oobleck, varuna, restart and spares: the row of {} for {:.3g} "
      "parameters",
      setup.constants.model_row, setup.job.parameters));
  RC_ASSIGN_OR_RETURN(setup.policies, ChoosePolicies(arguments.policy, setup));
  RC_ASSIGN_OR_RETURN(setup.timeline, MakeTimeline(arguments, setup.job, setup.constants));
  return setup;
}

}  // namespace recycle
