#include "recycle/app/plan_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "recycle/app/memory_cap.h"
#include "recycle/app/numbers.h"
#include "recycle/app/profile_file.h"
#include "recycle/plan/nearest.h"
#include "recycle/planner/cost_options.h"

namespace recycle {
namespace {

// A plan beyond this would not fit into memory with its pictures.
constexpr std::int64_t kMostForwards = 20'000'000;

// A place of a job, or why not.
StatusOr<WorkerId> ParsePlace(const std::string& option, const std::string& text,
                              const Parallelism& parallel) {
  const StatusOr<WorkerId> place = ParseWorkerId(text);
  if (!place.ok()) return Named(option, place.status());
  const int pipeline = std::clamp(place->pipeline.value(), 0, parallel.data - 1);
  const int stage = std::clamp(place->stage.value(), 0, parallel.pipeline - 1);
  const WorkerId nearest{PipelineId(pipeline), StageId(stage)};
  if (nearest == *place) return nearest;
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} is no place of this job, whose places are 0:0 to {}:{} (pipeline:stage); the nearest "
      "valid choice is {}",
      option, text, parallel.data - 1, parallel.pipeline - 1, ToString(nearest)));
}

Status CheckSize(const PlanArguments& arguments) {
  const std::int64_t places = std::int64_t{arguments.dp} * arguments.pp;
  if (places * arguments.microbatches <= kMostForwards) return OkStatus();
  const bool places_fit = places <= kMostForwards;
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} places with {} micro-batches per pipeline make more than {} forwards, which is the "
      "most a plan may have; the nearest valid choice is {}",
      places_fit ? "--microbatches" : "--dp", places, arguments.microbatches, kMostForwards,
      kMostForwards / (places_fit ? places : arguments.pp)));
}

Status CheckMethodName(const std::string& text) {
  const std::vector<std::string_view> names = {"adaptive", "gpipe", "1f1b",  "interleaved", "zb-h1",
                                               "zb-h2",    "zb-v",  "naive", "exact"};
  if (ParseMethod(text).ok()) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--method: {} is not one of {}; the nearest valid choice is {}", text,
                  fmt::join(names, ", "), NearestName(text, names)));
}

StatusOr<CostProfile> CostsOfText(const std::string& text, const Parallelism& parallel) {
  UniformCosts uniform;
  if (!text.empty()) {
    const StatusOr<UniformCosts> parsed = ParseUniformCosts(text);
    if (!parsed.ok()) return Named("--cost", parsed.status());
    uniform = *parsed;
    if (uniform.deferred > 1) {
      return absl::InvalidArgumentError(fmt::format(
          "--cost: deferred is {}, but it must be a number from 0 to 1, the share of an activation "
          "that is kept from I to W; the nearest valid choice is deferred=1",
          uniform.deferred));
    }
  }
  StatusOr<CostProfile> costs = MakeUniformProfile(uniform, parallel);
  if (!costs.ok()) return Named("--cost", costs.status());
  return costs;
}

// The costs of a profile file: one entry per stage, or one per worker of a pipeline, which is
// spread over its virtual stages.
StatusOr<CostProfile> CostsOfProfile(const PlanArguments& arguments, const Parallelism& parallel) {
  const StatusOr<JobProfile> profile =
      ReadJobProfile(arguments.profile, arguments.model, parallel.num_stages());
  if (!profile.ok()) return Named("--profile", profile.status());
  const auto entries = static_cast<int>(profile->costs.stages.size());
  if (entries == parallel.num_stages()) return profile->costs;
  if (entries != parallel.pipeline) {
    const std::string per_stage =
        parallel.virtual_stages == 1
            ? ""
            : fmt::format(" ({}) or per stage ({})", parallel.pipeline, parallel.num_stages());
    return absl::InvalidArgumentError(fmt::format(
        "--profile: {} has costs of {} stages, but --pp is {}, and a profile has one entry per "
        "worker of a pipeline{}; the nearest valid choice is --pp {}",
        arguments.profile, entries, parallel.pipeline, per_stage, entries));
  }
  StatusOr<CostProfile> costs = SpreadOverVirtualStages(profile->costs, parallel);
  if (!costs.ok()) return Named("--profile", costs.status());
  return costs;
}

StatusOr<CostProfile> RequestedCosts(const PlanArguments& arguments, const Parallelism& parallel) {
  const bool profiled = !arguments.profile.empty();
  RC_ASSIGN_OR_RETURN(CostProfile costs, profiled ? CostsOfProfile(arguments, parallel)
                                                  : CostsOfText(arguments.cost, parallel));
  if (arguments.memory_cap.empty()) return costs;
  RC_ASSIGN_OR_RETURN(const MemoryCap cap, ParseMemoryCap(arguments.memory_cap, "--memory-cap",
                                                          /*allow_auto=*/false));
  RC_RETURN_IF_ERROR(ApplyMemoryCap(ToString(cap), parallel, costs));
  return costs;
}

}  // namespace

Status Named(const std::string& option, const Status& status) {
  return {status.code(), absl::StrCat(option, ": ", status.message())};
}

StatusOr<std::vector<WorkerId>> ParsePlaces(const std::string& option, const std::string& text,
                                            const Parallelism& parallel) {
  std::vector<WorkerId> places;
  if (text.empty()) return places;
  const std::vector<std::string> items = absl::StrSplit(text, ',');
  for (const std::string& item : items) {
    RC_ASSIGN_OR_RETURN(const WorkerId place, ParsePlace(option, item, parallel));
    if (std::find(places.begin(), places.end(), place) != places.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is named twice; name every place once", option, item));
    }
    places.push_back(place);
  }
  return places;
}

StatusOr<std::vector<SlowWorker>> ParseSlowWorkers(const std::string& text,
                                                   const Parallelism& parallel) {
  std::vector<SlowWorker> slow;
  if (text.empty()) return slow;
  const std::vector<std::string> items = absl::StrSplit(text, ',');
  for (const std::string& item : items) {
    const std::vector<std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    RC_ASSIGN_OR_RETURN(const WorkerId worker, ParsePlace("--slow", parts[0], parallel));
    const auto factor = parts.size() == 2 ? ParseReal(parts[1]) : std::nullopt;
    if (!factor || *factor <= 0) {
      return absl::InvalidArgumentError(fmt::format(
          "--slow: {} must be place=factor with a factor above 0, such as {}=1.5", item, parts[0]));
    }
    const bool twice = std::any_of(slow.begin(), slow.end(), [worker](const SlowWorker& other) {
      return other.worker == worker;
    });
    if (twice) {
      return absl::InvalidArgumentError(
          fmt::format("--slow: {} is named twice; name every place once", parts[0]));
    }
    slow.push_back({worker, *factor});
  }
  return slow;
}

Status CheckFailureCount(const std::string& option, int failures, const Parallelism& parallel) {
  const int most = parallel.num_workers() - parallel.pipeline;
  if (failures <= most) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} is more than {}, all workers but one per stage; the nearest valid choice is {}",
      option, failures, most, most));
}

StatusOr<PlanRequest> PlanRequestOf(const PlanArguments& arguments) {
  RC_RETURN_IF_ERROR(CheckSize(arguments));
  RC_RETURN_IF_ERROR(CheckMethodName(arguments.method));
  PlanRequest request;
  RC_ASSIGN_OR_RETURN(request.method, ParseMethod(arguments.method));
  const bool several = request.method == Method::kInterleaved || request.method == Method::kZbV;
  request.parallel = {
      .data = arguments.dp,
      .pipeline = arguments.pp,
      .tensor = arguments.tp,
      .virtual_stages = arguments.virtual_stages.value_or(several ? 2 : 1),
      .placement = request.method == Method::kZbV ? Placement::kV : Placement::kInterleaved};
  request.micro_batches = arguments.microbatches;
  request.options = {.decoupled = !arguments.no_decouple, .staggered = !arguments.no_stagger};
  RC_RETURN_IF_ERROR(CheckMethod(request));
  RC_ASSIGN_OR_RETURN(request.failed, ParsePlaces("--failed", arguments.failed, request.parallel));
  RC_ASSIGN_OR_RETURN(request.slow, ParseSlowWorkers(arguments.slow, request.parallel));
  for (const SlowWorker& slow : request.slow) {
    const auto& failed = request.failed;
    if (std::find(failed.begin(), failed.end(), slow.worker) != failed.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "--slow: {} is also in --failed; a worker is slow or dead", ToString(slow.worker)));
    }
  }
  if (!arguments.affinity.empty()) {
    const StatusOr<Affinity> affinity = ParseAffinity(arguments.affinity);
    if (!affinity.ok()) return Named("--affinity", affinity.status());
    request.affinity = *affinity;
  }
  if (arguments.time_limit_s) {
    request.time_limit =
        std::chrono::milliseconds(static_cast<std::int64_t>(*arguments.time_limit_s * 1000));
  }
  RC_ASSIGN_OR_RETURN(request.costs, RequestedCosts(arguments, request.parallel));
  return request;
}

}  // namespace recycle
