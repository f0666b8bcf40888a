#include "recycle/plan/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "recycle/base/file.h"
#include "recycle/plan/costs_json.h"
#include "recycle/plan/json_fields.h"
#include "recycle/plan/json_text.h"

namespace recycle {
namespace {

constexpr std::string_view kFormatName = "recycle-plan/";
constexpr int kFormatVersion = 1;

// ---- Writing ----

std::string WorkerText(WorkerId worker) {
  return fmt::format("[{}, {}]", worker.pipeline.value(), worker.stage.value());
}

std::string ActionsText(const std::vector<Action>& actions) {
  return ListText(actions, [](const Action& action) { return '"' + ToString(action) + '"'; });
}

std::string ParallelText(const Parallelism& parallel) {
  std::string text = fmt::format(R"({{"data": {}, "pipeline": {}, "tensor": {})", parallel.data,
                                 parallel.pipeline, parallel.tensor);
  if (parallel.virtual_stages > 1) {
    text += fmt::format(R"(, "virtual": {}, "placement": "{}")", parallel.virtual_stages,
                        parallel.placement == Placement::kV ? "v" : "interleaved");
  }
  return text + "}";
}

std::string SlowText(const SlowWorker& slow) {
  return fmt::format("[{}, {}, {}]", slow.worker.pipeline.value(), slow.worker.stage.value(),
                     slow.factor);
}

std::string InitialText(const InitialState& state) {
  return fmt::format(R"({{"worker": {}, "iteration": {}, "done": {}}})", WorkerText(state.worker),
                     state.iteration, ActionsText(state.done));
}

std::string CopyText(const CopyMove& copy) {
  return fmt::format("[{}, {}]", WorkerText(copy.from), WorkerText(copy.to));
}

std::string ScheduleText(const WorkerSchedule& entry) {
  return fmt::format(R"({{"worker": {}, "actions": {}}})", WorkerText(entry.worker),
                     ActionsText(entry.actions));
}

// The keys that are left out when they have nothing to say.
std::string OptionalText(const Plan& plan) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text += fmt::format(" \"{}\": {},\n", key, value);
  };
  if (!plan.slow.empty()) add("slow", ListText(plan.slow, SlowText));
  if (!plan.initial.empty()) add("initial", ListText(plan.initial, InitialText, ",\n  "));
  if (!plan.committed.empty()) {
    add("committed", ListText(plan.committed, [](StageId s) { return std::to_string(s.value()); }));
  }
  if (!plan.copies.empty()) add("copies", ListText(plan.copies, CopyText));
  if (plan.makespan) add("makespan", UnitsText(*plan.makespan));
  if (plan.period) add("period", UnitsText(*plan.period));
  if (plan.lower_bound) add("lower_bound", UnitsText(*plan.lower_bound));
  if (!plan.method.empty()) add("method", QuotedJson(plan.method));
  return text;
}

// ---- Reading ----

Status CheckFormat(const JsonValue& root) {
  RC_ASSIGN_OR_RETURN(const JsonValue value, root.Get("format"));
  RC_ASSIGN_OR_RETURN(const std::string format, value.Text());
  const std::string current = fmt::format("{}{}", kFormatName, kFormatVersion);
  if (format == current) return OkStatus();
  int version = 0;
  const char* const end = format.data() + format.size();
  const bool ours = format.starts_with(kFormatName);
  if (ours && std::from_chars(format.data() + kFormatName.size(), end, version).ptr == end &&
      version > kFormatVersion) {
    return value.Refuse(fmt::format(
        "this program reads up to \"{}\"; update it, or write the plan again with it", current));
  }
  return value.Refuse(fmt::format("must be \"{}\"", current));
}

// A stated figure: a sum of durations, so it may be larger than one.
StatusOr<Ticks> ReadFigure(const JsonValue& value) {
  constexpr double kMaxUnits = 9e12;
  RC_ASSIGN_OR_RETURN(const double units, value.Number());
  if (units < 0 || units > kMaxUnits) return value.Refuse("must be from 0 to 9e12");
  return std::llround(units * static_cast<double>(kTicksPerUnit));
}

StatusOr<WorkerId> ReadWorker(const JsonValue& value) {
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> pair, value.ListOf(2));
  RC_ASSIGN_OR_RETURN(const int pipeline, pair[0].Whole());
  RC_ASSIGN_OR_RETURN(const int stage, pair[1].Whole());
  return WorkerId{PipelineId(pipeline), StageId(stage)};
}

StatusOr<std::vector<Action>> ReadActions(const JsonValue& value) {
  RC_ASSIGN_OR_RETURN(const std::vector<std::string> texts, value.Texts());
  std::vector<Action> actions;
  actions.reserve(texts.size());
  for (const std::string& text : texts) {
    const StatusOr<Action> action = ParseAction(text);
    if (!action.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}[{}]: {}", value.path(), actions.size(),
                                                    std::string(action.status().message())));
    }
    actions.push_back(*action);
  }
  return actions;
}

StatusOr<Parallelism> ReadParallel(const JsonValue& value) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"data", "pipeline", "tensor", "virtual", "placement"}));
  Parallelism parallel;
  const auto read = [&](std::string_view key, bool optional, int& out) -> Status {
    if (optional && !value.Has(key)) return OkStatus();
    RC_ASSIGN_OR_RETURN(const JsonValue member, value.Get(key));
    RC_ASSIGN_OR_RETURN(out, member.Whole());
    return OkStatus();
  };
  RC_RETURN_IF_ERROR(read("data", false, parallel.data));
  RC_RETURN_IF_ERROR(read("pipeline", false, parallel.pipeline));
  RC_RETURN_IF_ERROR(read("tensor", true, parallel.tensor));
  RC_RETURN_IF_ERROR(read("virtual", true, parallel.virtual_stages));
  if (!value.Has("placement")) return parallel;
  RC_ASSIGN_OR_RETURN(const JsonValue member, value.Get("placement"));
  RC_ASSIGN_OR_RETURN(const std::string placement, member.Text());
  if (placement != "interleaved" && placement != "v") {
    return member.Refuse(R"(must be "interleaved" or "v")");
  }
  parallel.placement = placement == "v" ? Placement::kV : Placement::kInterleaved;
  return parallel;
}

StatusOr<PlanOptions> ReadOptions(const JsonValue& value) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"decoupled", "staggered"}));
  PlanOptions options;
  const auto read = [&](std::string_view key, bool& out) -> Status {
    if (!value.Has(key)) return OkStatus();
    RC_ASSIGN_OR_RETURN(const JsonValue member, value.Get(key));
    RC_ASSIGN_OR_RETURN(out, member.Boolean());
    return OkStatus();
  };
  RC_RETURN_IF_ERROR(read("decoupled", options.decoupled));
  RC_RETURN_IF_ERROR(read("staggered", options.staggered));
  return options;
}

StatusOr<SlowWorker> ReadSlow(const JsonValue& value) {
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> triple, value.ListOf(3));
  RC_ASSIGN_OR_RETURN(const int pipeline, triple[0].Whole());
  RC_ASSIGN_OR_RETURN(const int stage, triple[1].Whole());
  RC_ASSIGN_OR_RETURN(const double factor, triple[2].Number());
  return SlowWorker{WorkerId{PipelineId(pipeline), StageId(stage)}, factor};
}

StatusOr<CopyMove> ReadCopy(const JsonValue& value) {
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> pair, value.ListOf(2));
  RC_ASSIGN_OR_RETURN(const WorkerId from, ReadWorker(pair[0]));
  RC_ASSIGN_OR_RETURN(const WorkerId to, ReadWorker(pair[1]));
  return CopyMove{from, to};
}

StatusOr<InitialState> ReadInitial(const JsonValue& value) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"worker", "iteration", "done"}));
  InitialState state;
  RC_ASSIGN_OR_RETURN(const JsonValue worker, value.Get("worker"));
  RC_ASSIGN_OR_RETURN(state.worker, ReadWorker(worker));
  RC_ASSIGN_OR_RETURN(const JsonValue iteration, value.Get("iteration"));
  RC_ASSIGN_OR_RETURN(state.iteration, iteration.Whole());
  RC_ASSIGN_OR_RETURN(const JsonValue done, value.Get("done"));
  RC_ASSIGN_OR_RETURN(state.done, ReadActions(done));
  return state;
}

StatusOr<WorkerSchedule> ReadSchedule(const JsonValue& value) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"worker", "actions"}));
  WorkerSchedule entry;
  RC_ASSIGN_OR_RETURN(const JsonValue worker, value.Get("worker"));
  RC_ASSIGN_OR_RETURN(entry.worker, ReadWorker(worker));
  RC_ASSIGN_OR_RETURN(const JsonValue actions, value.Get("actions"));
  RC_ASSIGN_OR_RETURN(entry.actions, ReadActions(actions));
  return entry;
}

StatusOr<StageId> ReadStageId(const JsonValue& value) {
  RC_ASSIGN_OR_RETURN(const int stage, value.Whole());
  return StageId(stage);
}

// What a plan may state about itself.
Status ReadStatements(const JsonValue& root, Plan& plan) {
  const std::pair<std::string_view, std::optional<Ticks>*> figures[] = {
      {"makespan", &plan.makespan}, {"period", &plan.period}, {"lower_bound", &plan.lower_bound}};
  for (const auto& [key, figure] : figures) {
    if (!root.Has(key)) continue;
    RC_ASSIGN_OR_RETURN(const JsonValue value, root.Get(key));
    RC_ASSIGN_OR_RETURN(*figure, ReadFigure(value));
  }
  if (!root.Has("method")) return OkStatus();
  RC_ASSIGN_OR_RETURN(const JsonValue method, root.Get("method"));
  RC_ASSIGN_OR_RETURN(plan.method, method.Text());
  return OkStatus();
}

StatusOr<Plan> ReadPlan(const JsonValue& root) {
  Plan plan;
  RC_ASSIGN_OR_RETURN(const JsonValue parallel, root.Get("parallel"));
  RC_ASSIGN_OR_RETURN(plan.parallel, ReadParallel(parallel));
  RC_ASSIGN_OR_RETURN(const JsonValue micro_batches, root.Get("micro_batches"));
  RC_ASSIGN_OR_RETURN(plan.micro_batches, micro_batches.Whole());
  RC_RETURN_IF_ERROR(ReadOptionalList(root, "failed", plan.failed, ReadWorker));
  if (root.Has("options")) {
    RC_ASSIGN_OR_RETURN(const JsonValue options, root.Get("options"));
    RC_ASSIGN_OR_RETURN(plan.options, ReadOptions(options));
  }
  RC_ASSIGN_OR_RETURN(const JsonValue costs, root.Get("costs"));
  RC_ASSIGN_OR_RETURN(plan.costs, CostsFromJson(costs));
  RC_RETURN_IF_ERROR(ReadOptionalList(root, "slow", plan.slow, ReadSlow));
  RC_RETURN_IF_ERROR(ReadOptionalList(root, "initial", plan.initial, ReadInitial));
  RC_RETURN_IF_ERROR(ReadOptionalList(root, "committed", plan.committed, ReadStageId));
  RC_RETURN_IF_ERROR(ReadOptionalList(root, "copies", plan.copies, ReadCopy));
  RC_ASSIGN_OR_RETURN(const JsonValue workers, root.Get("workers"));
  RC_RETURN_IF_ERROR(ReadOptionalList(root, workers.path(), plan.workers, ReadSchedule));
  RC_RETURN_IF_ERROR(ReadStatements(root, plan));
  return plan;
}

// The order of these lists in a file means nothing; in memory they are ascending.
void SortLists(Plan& plan) {
  std::sort(plan.failed.begin(), plan.failed.end());
  std::sort(plan.committed.begin(), plan.committed.end());
  std::stable_sort(
      plan.workers.begin(), plan.workers.end(),
      [](const WorkerSchedule& a, const WorkerSchedule& b) { return a.worker < b.worker; });
}

}  // namespace

std::string PlanToJson(const Plan& plan) {
  return fmt::format(R"({{"format": "{}{}",
 "parallel": {},
 "micro_batches": {},
 "failed": {},
 "options": {{"decoupled": {}, "staggered": {}}},
 "costs": {},
{} "workers": {}}}
)",
                     kFormatName, kFormatVersion, ParallelText(plan.parallel), plan.micro_batches,
                     ListText(plan.failed, WorkerText), plan.options.decoupled,
                     plan.options.staggered, CostsToJson(plan.costs), OptionalText(plan),
                     ListText(plan.workers, ScheduleText, ",\n  "));
}

StatusOr<Plan> PlanFromJson(std::string_view json) {
  RC_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(json));
  const JsonValue root(document, "");
  if (!document.is_object()) return absl::InvalidArgumentError("a plan is a JSON object");
  RC_RETURN_IF_ERROR(CheckFormat(root));
  RC_RETURN_IF_ERROR(root.CheckKeys({"format", "parallel", "micro_batches", "failed", "options",
                                     "costs", "slow", "initial", "committed", "copies", "workers",
                                     "makespan", "period", "lower_bound", "method"}));
  RC_ASSIGN_OR_RETURN(Plan plan, ReadPlan(root));
  RC_RETURN_IF_ERROR(CheckPlanShape(plan));
  SortLists(plan);
  AddStepActions(plan);
  return plan;
}

StatusOr<Plan> ReadPlanFile(const std::string& path) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  StatusOr<Plan> plan = PlanFromJson(text);
  if (!plan.ok()) {
    return Status(plan.status().code(),
                  fmt::format("plan file {}: {}", path, std::string(plan.status().message())));
  }
  return plan;
}

Status WritePlanFile(const Plan& plan, const std::string& path) {
  return WriteFileAtomically(path, PlanToJson(plan));
}

}  // namespace recycle
