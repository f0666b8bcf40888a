#include "recycle/app/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "recycle/app/plan_figures.h"
#include "recycle/app/plan_table_command.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/clock.h"
#include "recycle/base/file.h"
#include "recycle/plan/pictures.h"
#include "recycle/plan/plan_json.h"
#include "recycle/planner/exact.h"
#include "recycle/planner/normalization.h"
#include "recycle/planner/plan_table.h"
#include "recycle/planner/stragglers.h"
#include "recycle/planner/torch_csv.h"

namespace recycle {
namespace {

// A plan and what goes with it.
struct Outcome {
  PlanRequest request;  // what the plan answers
  Plan plan;
  std::vector<NormalizationMove> moves;    // --normalize
  std::vector<StragglerVerdict> verdicts;  // --slow
  std::string proof;                       // --method exact: how far its answer is proven
  double one_f_one_b_period = 0;           // fault-free, at the same costs
  double solve_ms = 0;
};

double RelativeThroughput(const Outcome& outcome) {
  const double period = ToUnits(*outcome.plan.period);
  return period > 0 ? outcome.one_f_one_b_period / period : 1.0;
}

nlohmann::ordered_json MovesAsJson(const std::vector<NormalizationMove>& moves) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const NormalizationMove& move : moves) {
    list.push_back({{"from", ToString(move.copy.from)},
                    {"to", ToString(move.copy.to)},
                    {"bytes", move.bytes},
                    {"period_without", ToUnits(move.period_without)},
                    {"period_with", ToUnits(move.period_with)}});
  }
  return list;
}

nlohmann::ordered_json VerdictsAsJson(const std::vector<StragglerVerdict>& verdicts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const StragglerVerdict& verdict : verdicts) {
    nlohmann::ordered_json json;
    json["worker"] = ToString(verdict.worker);
    json["factor"] = verdict.factor;
    json["evict"] = verdict.evict;
    json["period_kept"] = ToUnits(verdict.period_kept);
    json["period_evicted"] = nullptr;
    if (verdict.period_evicted) json["period_evicted"] = ToUnits(*verdict.period_evicted);
    json["reason"] = verdict.reason;
    list.push_back(std::move(json));
  }
  return list;
}

nlohmann::ordered_json FiguresAsJson(const Outcome& outcome) {
  const Plan& plan = outcome.plan;
  const PlanSummary summary = Summarize(plan);
  nlohmann::ordered_json figures;
  figures["method"] = plan.method;
  figures["unit"] = plan.costs.unit;
  figures["makespan"] = summary.makespan;
  figures["period"] = summary.period;
  figures["lower_bound"] = summary.lower_bound.value_or(0);
  figures["gap"] = summary.gap.value_or(0);
  figures["fault_free_1f1b_period"] = outcome.one_f_one_b_period;
  figures["relative_throughput"] = RelativeThroughput(outcome);
  figures["fault_scaled"] = summary.fault_scaled;
  figures["live_workers"] = summary.live_workers;
  figures["peak_activation"] = summary.peak_activation;
  figures["solve_ms"] = outcome.solve_ms;
  if (!outcome.moves.empty()) figures["copies"] = MovesAsJson(outcome.moves);
  if (!outcome.verdicts.empty()) figures["verdicts"] = VerdictsAsJson(outcome.verdicts);
  if (!outcome.proof.empty()) figures["proof"] = outcome.proof;
  return figures;
}

std::string MoveLine(const NormalizationMove& move, const std::string& unit) {
  const std::string bytes =
      move.bytes > 0 ? fmt::format("{:.1f} MB", move.bytes / 1e6) : "size unknown";
  return FigureLine("copy",
                    fmt::format("{} becomes {} ({}): period {:.6g} -> {:.6g} {}",
                                ToString(move.copy.from), ToString(move.copy.to), bytes,
                                ToUnits(move.period_without), ToUnits(move.period_with), unit));
}

std::string FiguresTable(const Outcome& outcome) {
  const std::string& unit = outcome.plan.costs.unit;
  std::string text = FiguresAsText(outcome.plan);
  for (const NormalizationMove& move : outcome.moves) text += MoveLine(move, unit);
  for (const StragglerVerdict& verdict : outcome.verdicts) {
    text += FigureLine("straggler " + ToString(verdict.worker), verdict.reason);
  }
  if (!outcome.proof.empty()) text += FigureLine("proof", outcome.proof);
  text += FigureLine("fault-free 1F1B", fmt::format("{:.6g} {}", outcome.one_f_one_b_period, unit));
  text += FigureLine(
      "throughput", fmt::format("{:.4f} of fault-free 1F1B (fault-scaled {:.4f})",
                                RelativeThroughput(outcome), Summarize(outcome.plan).fault_scaled));
  text += FigureLine("solved in", fmt::format("{:.1f} ms", outcome.solve_ms));
  return text;
}

// The same job with all its workers, to be shown above the adapted plan.
StatusOr<Plan> FaultFreePlan(const PlanRequest& request) {
  PlanRequest fault_free = request;
  fault_free.failed.clear();
  return MakePlan(fault_free);
}

Status WriteFiles(const PlanArguments& arguments, const Outcome& outcome) {
  const Plan& plan = outcome.plan;
  if (!arguments.out.empty()) RC_RETURN_IF_ERROR(WritePlanFile(plan, arguments.out));
  if (!arguments.trace.empty()) {
    RC_ASSIGN_OR_RETURN(const std::string trace, PlanToChromeTrace(plan));
    RC_RETURN_IF_ERROR(WriteFileAtomically(arguments.trace, trace));
  }
  if (arguments.html.empty()) return OkStatus();
  std::optional<Plan> fault_free;
  if (!plan.failed.empty()) {
    RC_ASSIGN_OR_RETURN(fault_free, FaultFreePlan(outcome.request));
  }
  RC_ASSIGN_OR_RETURN(const std::string html,
                      PlanToHtml(plan, fault_free ? &*fault_free : nullptr));
  return WriteFileAtomically(arguments.html, html);
}

// Makes the plan that `arguments` ask for.
Status Solve(const PlanArguments& arguments, Outcome& outcome) {
  const PlanRequest& request = outcome.request;
  if (arguments.normalize) {
    RC_ASSIGN_OR_RETURN(NormalizedPlan normalized,
                        NormalizeFailures(request, *arguments.normalize));
    outcome.plan = std::move(normalized.plan);
    outcome.moves = std::move(normalized.moves);
  } else if (arguments.failures) {
    RC_RETURN_IF_ERROR(CheckFailureCount("--failures", *arguments.failures, request.parallel));
    RC_ASSIGN_OR_RETURN(outcome.plan, PlanForFailureCount(request, *arguments.failures));
  } else if (request.method == Method::kExact) {
    RC_ASSIGN_OR_RETURN(ExactResult exact, SolveExact(request));
    outcome.plan = std::move(exact.plan);
    outcome.proof = std::move(exact.status);
  } else {
    RC_ASSIGN_OR_RETURN(outcome.plan, MakePlan(request));
  }
  return OkStatus();
}

StatusOr<Outcome> MakeOutcome(const PlanArguments& arguments) {
  Outcome outcome;
  RC_ASSIGN_OR_RETURN(outcome.request, PlanRequestOf(arguments));
  const TimePoint start = SystemClock().Now();
  RC_RETURN_IF_ERROR(Solve(arguments, outcome));
  outcome.solve_ms = ToMilliseconds(SystemClock().Now() - start);
  if (!outcome.request.slow.empty() && outcome.request.method == Method::kAdaptive &&
      !arguments.failures && !arguments.normalize) {
    RC_ASSIGN_OR_RETURN(StragglerAdvice advice, JudgeStragglers(outcome.request));
    outcome.verdicts = std::move(advice.verdicts);
  }
  return outcome;
}

// A plan out of a table file.
StatusOr<Outcome> ExpandOutcome(const PlanArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const PlanTable table, PlanTable::ReadFile(arguments.table));
  const int failures = arguments.failures.value_or(0);
  if (failures > table.max_failures()) {
    return absl::InvalidArgumentError(fmt::format(
        "--failures: {} is more than the {} failures that {} was made for; the nearest valid "
        "choice is {}",
        failures, table.max_failures(), arguments.table, table.max_failures()));
  }
  Outcome outcome;
  outcome.request = table.request();
  RC_ASSIGN_OR_RETURN(const std::vector<WorkerId> failed,
                      ParsePlaces("--failed", arguments.failed, outcome.request.parallel));
  const TimePoint start = SystemClock().Now();
  RC_ASSIGN_OR_RETURN(outcome.plan,
                      failed.empty() ? table.ExpandCount(failures) : table.Expand(failed));
  outcome.solve_ms = ToMilliseconds(SystemClock().Now() - start);
  return outcome;
}

Status CheckForm(const PlanArguments& arguments) {
  if (!arguments.table.empty()) return OkStatus();
  for (const auto& [name, value] :
       {std::pair("--dp", arguments.dp), std::pair("--pp", arguments.pp),
        std::pair("--microbatches", arguments.microbatches)}) {
    if (value == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{} is required; see recycle plan --help", name));
    }
  }
  return OkStatus();
}

}  // namespace

Status RunPlanCommand(const PlanArguments& arguments, std::ostream& out) {
  RC_RETURN_IF_ERROR(CheckForm(arguments));
  if (arguments.all_failures) return RunPlanTableCommand(arguments, out);
  RC_ASSIGN_OR_RETURN(Outcome outcome,
                      arguments.table.empty() ? MakeOutcome(arguments) : ExpandOutcome(arguments));
  RC_ASSIGN_OR_RETURN(const Ticks reference, FaultFreeOneFOneBPeriod(outcome.request));
  outcome.one_f_one_b_period = ToUnits(reference);
  RC_RETURN_IF_ERROR(WriteFiles(arguments, outcome));
  if (!arguments.export_format.empty()) {
    RC_ASSIGN_OR_RETURN(const std::string csv, PlanToTorchCsv(outcome.plan));
    out << csv;
    return OkStatus();
  }
  if (arguments.text) out << PlanToGrid(outcome.plan) << "\n";
  if (arguments.json) {
    out << FiguresAsJson(outcome).dump() << "\n";
  } else {
    out << FiguresTable(outcome) << WrittenLines({arguments.out, arguments.trace, arguments.html});
  }
  return OkStatus();
}

}  // namespace recycle
