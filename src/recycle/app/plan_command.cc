#include "recycle/app/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "recycle/app/numbers.h"
#include "recycle/app/plan_figures.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/plan/nearest.h"
#include "recycle/plan/pictures.h"
#include "recycle/plan/plan_json.h"
#include "recycle/planner/cost_options.h"

namespace recycle {
namespace {

// A plan beyond this would not fit into memory with its pictures.
constexpr std::int64_t kMostForwards = 20'000'000;

Status Named(const std::string& option, const Status& status) {
  return {status.code(), absl::StrCat(option, ": ", status.message())};
}

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
  return absl::InvalidArgumentError(fmt::format(
      "--microbatches: {} on {} places make more than {} forwards, which is the most a plan may "
      "have; the nearest valid choice is {}",
      arguments.microbatches, places, kMostForwards,
      std::max<std::int64_t>(1, kMostForwards / places)));
}

Status CheckMethodName(const std::string& text) {
  const std::vector<std::string_view> names = {"adaptive", "gpipe", "1f1b",  "interleaved", "zb-h1",
                                               "zb-h2",    "zb-v",  "naive", "exact"};
  if (ParseMethod(text).ok()) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--method: {} is not one of {}; the nearest valid choice is {}", text,
                  fmt::join(names, ", "), NearestName(text, names)));
}

StatusOr<CostProfile> CostsOf(const PlanArguments& arguments, const Parallelism& parallel) {
  UniformCosts uniform;
  if (!arguments.cost.empty()) {
    const StatusOr<UniformCosts> parsed = ParseUniformCosts(arguments.cost);
    if (!parsed.ok()) return Named("--cost", parsed.status());
    uniform = *parsed;
  }
  StatusOr<CostProfile> costs = MakeUniformProfile(uniform, parallel);
  if (!costs.ok()) return Named("--cost", costs.status());
  const Status capped = ApplyMemoryCap(arguments.memory_cap, parallel, *costs);
  if (!capped.ok()) return Named("--memory-cap", capped);
  return costs;
}

nlohmann::ordered_json FiguresAsJson(const Plan& plan, double one_f_one_b_period, double solve_ms) {
  const PlanSummary summary = Summarize(plan);
  nlohmann::ordered_json figures;
  figures["method"] = plan.method;
  figures["unit"] = plan.costs.unit;
  figures["makespan"] = summary.makespan;
  figures["period"] = summary.period;
  figures["lower_bound"] = summary.lower_bound.value_or(0);
  figures["gap"] = summary.gap.value_or(0);
  figures["fault_free_1f1b_period"] = one_f_one_b_period;
  figures["relative_throughput"] = summary.period > 0 ? one_f_one_b_period / summary.period : 1.0;
  figures["fault_scaled"] = summary.fault_scaled;
  figures["live_workers"] = summary.live_workers;
  figures["peak_activation"] = summary.peak_activation;
  figures["solve_ms"] = solve_ms;
  return figures;
}

std::string FiguresTable(const Plan& plan, double one_f_one_b_period, double solve_ms) {
  const PlanSummary summary = Summarize(plan);
  std::string text = FiguresAsText(plan);
  text +=
      FigureLine("fault-free 1F1B", fmt::format("{:.6g} {}", one_f_one_b_period, plan.costs.unit));
  const double relative = summary.period > 0 ? one_f_one_b_period / summary.period : 1.0;
  text += FigureLine("throughput", fmt::format("{:.4f} of fault-free 1F1B (fault-scaled {:.4f})",
                                               relative, summary.fault_scaled));
  text += FigureLine("solved in", fmt::format("{:.1f} ms", solve_ms));
  return text;
}

// The same job with all its workers, to be shown above the adapted plan.
StatusOr<Plan> FaultFreePlan(const PlanRequest& request) {
  PlanRequest fault_free = request;
  fault_free.failed.clear();
  return MakePlan(fault_free);
}

Status WriteFiles(const PlanArguments& arguments, const PlanRequest& request, const Plan& plan) {
  if (!arguments.out.empty()) RC_RETURN_IF_ERROR(WritePlanFile(plan, arguments.out));
  if (!arguments.trace.empty()) {
    RC_ASSIGN_OR_RETURN(const std::string trace, PlanToChromeTrace(plan));
    RC_RETURN_IF_ERROR(WriteFileAtomically(arguments.trace, trace));
  }
  if (arguments.html.empty()) return OkStatus();
  std::optional<Plan> fault_free;
  if (!plan.failed.empty()) {
    RC_ASSIGN_OR_RETURN(fault_free, FaultFreePlan(request));
  }
  RC_ASSIGN_OR_RETURN(const std::string html,
                      PlanToHtml(plan, fault_free ? &*fault_free : nullptr));
  return WriteFileAtomically(arguments.html, html);
}

}  // namespace

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
  RC_ASSIGN_OR_RETURN(request.costs, CostsOf(arguments, request.parallel));
  return request;
}

Status RunPlanCommand(const PlanArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const PlanRequest request, PlanRequestOf(arguments));
  const TimePoint start = SystemClock().Now();
  RC_ASSIGN_OR_RETURN(const Plan plan, MakePlan(request));
  const double solve_ms = ToMilliseconds(SystemClock().Now() - start);
  RC_ASSIGN_OR_RETURN(const Ticks reference, FaultFreeOneFOneBPeriod(request));
  RC_RETURN_IF_ERROR(WriteFiles(arguments, request, plan));
  if (arguments.text) out << PlanToGrid(plan) << "\n";
  if (arguments.json) {
    out << FiguresAsJson(plan, ToUnits(reference), solve_ms).dump() << "\n";
  } else {
    out << FiguresTable(plan, ToUnits(reference), solve_ms);
  }
  return OkStatus();
}

}  // namespace recycle
