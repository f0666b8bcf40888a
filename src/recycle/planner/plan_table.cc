#include "recycle/planner/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/file.h"
#include "recycle/base/index.h"
#include "recycle/base/sha256.h"
#include "recycle/plan/json_fields.h"
#include "recycle/plan/plan_json.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/home_names.h"
#include "recycle/planner/normalization.h"
#include "recycle/planner/plan_builder.h"

namespace recycle {
namespace {

constexpr std::string_view kFormatName = "recycle-plan-table/";
constexpr int kFormatVersion = 1;

Status CheckTableRequest(const PlanRequest& request, int max_failures) {
  if (request.method != Method::kAdaptive || request.affinity == Affinity::kStrict) {
    return absl::InvalidArgumentError(fmt::format(
        "method is {} with affinity {}, but a plan table is for method adaptive with "
        "pooled micro-batches; the nearest valid choice is to leave both out",
        MethodText(request.method), request.affinity == Affinity::kStrict ? "strict" : "pool"));
  }
  if (request.parallel.virtual_stages > 1) {
    return absl::InvalidArgumentError(
        fmt::format("virtual stages are {}, but a plan table needs one stage a worker; the nearest "
                    "valid choice is 1",
                    request.parallel.virtual_stages));
  }
  if (!request.failed.empty() || !request.slow.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} workers have failed and {} are slow, but a plan table starts from a job "
                    "without either; the nearest valid choice is to leave --failed and --slow out",
                    request.failed.size(), request.slow.size()));
  }
  const int most = request.parallel.num_workers() - request.parallel.pipeline;
  if (max_failures < 0 || max_failures > most) {
    return absl::InvalidArgumentError(
        fmt::format("failures is {}, but must be 0 to {}, as every stage needs a live worker; the "
                    "nearest valid choice is {}",
                    max_failures, most, std::clamp(max_failures, 0, most)));
  }
  return OkStatus();
}

nlohmann::json RulesToJson(const DispatchRules& rules) {
  return {{"max_open", rules.max_open},
          {"min_open", rules.min_open},
          {"drain_weights", rules.drain_weights},
          {"max_weights", rules.max_weights},
          {"forward_lookahead", rules.forward_lookahead},
          {"weight_lookahead", rules.weight_lookahead}};
}

nlohmann::json EntryToJson(const PlanTable::Entry& entry) {
  const Policy& policy = entry.recipe.policy;
  nlohmann::json json = {
      {"failures", entry.failures},
      {"micro_batches", entry.micro_batches},
      {"policy",
       {policy.max_open + 1, policy.min_open + 1, policy.min_open_shift + 1,
        static_cast<int>(policy.drain), policy.forward_lookahead, policy.weight_lookahead}},
      {"surrogate", policy.surrogate},
      {"period_ticks", entry.period},
      {"makespan_ticks", entry.makespan}};
  if (entry.recipe.climbed.has_value()) json["rules"] = RulesToJson(*entry.recipe.climbed);
  return json;
}

StatusOr<std::vector<int>> ReadWholes(const JsonValue& value, std::size_t size, int max) {
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, value.ListOf(size));
  std::vector<int> wholes;
  for (const JsonValue& item : items) {
    RC_ASSIGN_OR_RETURN(const int whole, item.Whole(max));
    wholes.push_back(whole);
  }
  return wholes;
}

StatusOr<Ticks> ReadTickCount(const JsonValue& owner, std::string_view key) {
  RC_ASSIGN_OR_RETURN(const JsonValue value, owner.Get(key));
  RC_ASSIGN_OR_RETURN(const double number, value.Number());
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  if (number < 0 || number > kMostExact) return value.Refuse("must be 0 to 2^53 ticks");
  return static_cast<Ticks>(number);
}

StatusOr<DispatchRules> ReadRules(const JsonValue& value, std::size_t num_stages) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"max_open", "min_open", "drain_weights", "max_weights",
                                      "forward_lookahead", "weight_lookahead"}));
  DispatchRules rules;
  for (const auto& [key, limits] : {std::pair("max_open", &rules.max_open),
                                    {"min_open", &rules.min_open},
                                    {"drain_weights", &rules.drain_weights},
                                    {"max_weights", &rules.max_weights}}) {
    RC_ASSIGN_OR_RETURN(const JsonValue list, value.Get(key));
    RC_ASSIGN_OR_RETURN(*limits, ReadWholes(list, num_stages, DispatchRules::kUnlimited));
  }
  RC_ASSIGN_OR_RETURN(rules.forward_lookahead, ReadTickCount(value, "forward_lookahead"));
  RC_ASSIGN_OR_RETURN(rules.weight_lookahead, ReadTickCount(value, "weight_lookahead"));
  return rules;
}

StatusOr<int> ReadWhole(const JsonValue& owner, std::string_view key, int max) {
  RC_ASSIGN_OR_RETURN(const JsonValue value, owner.Get(key));
  return value.Whole(max);
}

StatusOr<Policy> ReadPolicy(const JsonValue& value, int surrogate) {
  constexpr int kMostThousandths = 1'000'000;  // no policy has more, and products stay in range
  RC_ASSIGN_OR_RETURN(const std::vector<int> numbers, ReadWholes(value, 6, kMostThousandths));
  if (numbers[3] > static_cast<int>(DrainRule::kHalfStage)) {
    return value.Refuse("must have 0, 1 or 2 as its fourth number");
  }
  return Policy{.max_open = numbers[0] - 1,
                .min_open = numbers[1] - 1,
                .min_open_shift = numbers[2] - 1,
                .drain = static_cast<DrainRule>(numbers[3]),
                .forward_lookahead = numbers[4],
                .weight_lookahead = numbers[5],
                .surrogate = surrogate};
}

StatusOr<PlanTable::Entry> ReadEntry(const JsonValue& value, const FlatJob& job) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"failures", "micro_batches", "policy", "surrogate",
                                      "period_ticks", "makespan_ticks", "rules"}));
  PlanTable::Entry entry;
  RC_ASSIGN_OR_RETURN(entry.failures, ReadWhole(value, "failures", job.num_pipelines - 1));
  RC_ASSIGN_OR_RETURN(entry.micro_batches,
                      ReadWhole(value, "micro_batches", job.num_micro_batches));
  RC_ASSIGN_OR_RETURN(const int surrogate, ReadWhole(value, "surrogate", kNumSurrogates - 1));
  RC_ASSIGN_OR_RETURN(const JsonValue policy, value.Get("policy"));
  RC_ASSIGN_OR_RETURN(entry.recipe.policy, ReadPolicy(policy, surrogate));
  RC_ASSIGN_OR_RETURN(entry.period, ReadTickCount(value, "period_ticks"));
  RC_ASSIGN_OR_RETURN(entry.makespan, ReadTickCount(value, "makespan_ticks"));
  entry.recipe.period = entry.period;
  if (value.Has("rules")) {
    RC_ASSIGN_OR_RETURN(const JsonValue rules, value.Get("rules"));
    RC_ASSIGN_OR_RETURN(entry.recipe.climbed, ReadRules(rules, job.stages.size()));
  }
  return entry;
}

PlanRequest RequestOf(const Plan& job) {
  PlanRequest request;
  request.parallel = job.parallel;
  request.micro_batches = job.micro_batches;
  request.costs = job.costs;
  request.options = job.options;
  request.failed = job.failed;
  request.slow = job.slow;
  return request;
}

}  // namespace

StatusOr<PlanTable> PlanTable::Make(const PlanRequest& request, int max_failures) {
  RC_RETURN_IF_ERROR(CheckTableRequest(request, max_failures));
  PlanTable table(request, max_failures);
  RC_ASSIGN_OR_RETURN(table.job_, MakeFlatJob(request));
  const int columns = request.parallel.pipeline;
  for (int f = 0; f <= LeastMaximum(request.parallel, max_failures); ++f) {
    const FlatJob job =
        WithLiveCounts(table.job_, std::vector<int>(Index(columns), request.parallel.data - f));
    RC_ASSIGN_OR_RETURN(PipelineTemplate made,
                        MakeTemplate(job, TemplateLength(job), TemplateEffort::kHead));
    table.entries_.push_back({.failures = f,
                              .micro_batches = made.micro_batches,
                              .recipe = std::move(made.recipe),
                              .period = made.figures.period,
                              .makespan = made.figures.makespan});
    table.orders_.push_back(std::move(made.order));
  }
  return table;
}

std::string PlanTable::JobText() const { return PlanToJson(PlanWithoutWorkers(request_)); }

std::string PlanTable::JobHash() const { return Sha256Of(JobText()); }

std::string PlanTable::ToJson() const {
  std::string entries;
  for (const Entry& entry : entries_) {
    entries += fmt::format("{}  {}", entries.empty() ? "" : ",\n", EntryToJson(entry).dump());
  }
  return fmt::format(R"({{"format": "{}{}",
"job_hash": "{}",
"max_failures": {},
"job": {},
"templates": [
{}
]}}
)",
                     kFormatName, kFormatVersion, JobHash(), max_failures_, JobText(), entries);
}

StatusOr<PlanTable> PlanTable::FromJson(std::string_view json) {
  RC_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(json));
  const JsonValue root(document, "");
  RC_RETURN_IF_ERROR(root.CheckKeys({"format", "job_hash", "max_failures", "job", "templates"}));
  RC_ASSIGN_OR_RETURN(const JsonValue format, root.Get("format"));
  RC_ASSIGN_OR_RETURN(const std::string format_text, format.Text());
  if (format_text != fmt::format("{}{}", kFormatName, kFormatVersion)) {
    return format.Refuse(fmt::format("must be {}{}; make the table again with this version",
                                     kFormatName, kFormatVersion));
  }
  RC_RETURN_IF_ERROR(root.Get("job").status());
  RC_ASSIGN_OR_RETURN(const Plan job_plan, PlanFromJson(document.at("job").dump()));
  RC_ASSIGN_OR_RETURN(const int max_failures, ReadWhole(root, "max_failures", 1 << 28));
  PlanTable table(RequestOf(job_plan), max_failures);
  RC_RETURN_IF_ERROR(CheckTableRequest(table.request_, max_failures));
  RC_ASSIGN_OR_RETURN(table.job_, MakeFlatJob(table.request_));
  RC_ASSIGN_OR_RETURN(const JsonValue hash, root.Get("job_hash"));
  RC_ASSIGN_OR_RETURN(const std::string hash_text, hash.Text());
  if (hash_text != table.JobHash()) {
    return hash.Refuse("must be the hash of the job in this file; make the table again");
  }
  RC_ASSIGN_OR_RETURN(const JsonValue templates, root.Get("templates"));
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, templates.List());
  for (const JsonValue& value : entries) {
    RC_ASSIGN_OR_RETURN(Entry entry, ReadEntry(value, table.job_));
    if (entry.failures != static_cast<int>(table.entries_.size())) {
      return value.Refuse(
          fmt::format("must be the template for {} failures per stage", table.entries_.size()));
    }
    table.entries_.push_back(std::move(entry));
  }
  if (table.Find(LeastMaximum(table.request_.parallel, max_failures)) == nullptr) {
    return templates.Refuse("must have a template for max_failures");
  }
  RC_RETURN_IF_ERROR(table.RegenerateOrders());
  return table;
}

Status PlanTable::RegenerateOrders() {
  for (const Entry& entry : entries_) {
    const FlatJob job = WithLiveCounts(
        job_, std::vector<int>(Index(job_.num_columns), job_.num_pipelines - entry.failures));
    if (entry.micro_batches != TemplateLength(job)) {
      return absl::InvalidArgumentError(
          fmt::format("the template for {} failures per stage has {} micro-batches, must have {}",
                      entry.failures, entry.micro_batches, TemplateLength(job)));
    }
    RC_ASSIGN_OR_RETURN(Order order, RunRecipe(job_, entry.micro_batches, entry.recipe));
    const PlanFigures figures = EvaluateOrder(SinglePipeline(job_, entry.micro_batches), order);
    if (figures.period != entry.period || figures.makespan != entry.makespan) {
      return absl::InvalidArgumentError(
          fmt::format("the template for {} failures per stage has period {} ticks, but the table "
                      "states {}; make "
                      "the table again",
                      entry.failures, figures.period, entry.period));
    }
    orders_.push_back(std::move(order));
  }
  return OkStatus();
}

StatusOr<PlanTable> PlanTable::ReadFile(const std::string& path) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  StatusOr<PlanTable> table = FromJson(text);
  if (table.ok()) return table;
  return Status(table.status().code(),
                fmt::format("plan table {}: {}", path, std::string(table.status().message())));
}

Status PlanTable::WriteFile(const std::string& path) const {
  return WriteFileAtomically(path, ToJson());
}

const PlanTable::Entry* PlanTable::Find(int most) const {
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.failures < most) continue;
    if (best == nullptr || entry.period < best->period) best = &entry;
  }
  return best;
}

TableLine PlanTable::Line(int failures) const {
  RC_CHECK(failures >= 0 && failures <= max_failures_) << failures << " of " << max_failures_;
  TableLine line;
  line.failures = failures;
  line.per_stage = LastPlacement(request_.parallel, failures);
  const Entry* entry = Find(LeastMaximum(request_.parallel, failures));
  line.period = entry->period;
  line.makespan = entry->makespan;
  line.template_failures = entry->failures;
  std::vector<int> live;
  for (const int f : line.per_stage) live.push_back(request_.parallel.data - f);
  line.lower_bound = LowerBound(WithLiveCounts(job_, live));
  return line;
}

StatusOr<const PlanTable::Entry*> PlanTable::EntryFor(const FlatJob& job) const {
  int most = 0;
  for (const std::vector<int>& live : job.live) {
    most = std::max(most, job.num_pipelines - static_cast<int>(live.size()));
  }
  if (const Entry* entry = Find(most); entry != nullptr) return entry;
  return absl::OutOfRangeError(fmt::format(
      "a stage has {} failures, but the table was made for at most {}; the nearest valid choice is "
      "a table for {} failures",
      most, entries_.back().failures, most * request_.parallel.pipeline));
}

StatusOr<Plan> PlanTable::Expand(const std::vector<WorkerId>& failed) const {
  PlanRequest request = request_;
  request.failed = failed;
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(request));
  RC_ASSIGN_OR_RETURN(const Entry* entry, EntryFor(job));
  return BuildPlan(request, job,
                   WithHomeNames(job, ExpandTemplate(job, orders_[Index(entry->failures)])));
}

Status PlanTable::CheckLine(int failures) const {
  const TableLine line = Line(failures);
  PlanRequest request = request_;
  request.failed = PlacesOf(request_.parallel, line.per_stage);
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(request));
  const Order order = ExpandTemplate(job, orders_[Index(line.template_failures)]);
  RC_RETURN_IF_ERROR(CheckOrder(job, order));
  const PlanFigures figures = EvaluateOrder(job, order);
  if (figures.period <= line.period && figures.makespan <= line.makespan) return OkStatus();
  return absl::InternalError(
      fmt::format("the plan for {} failures has period {} and makespan {}, the "
                  "table states {} and {}",
                  failures, figures.period, figures.makespan, line.period, line.makespan));
}

StatusOr<Plan> PlanTable::ExpandCount(int failures) const {
  if (failures < 0 || failures > max_failures_) {
    return absl::OutOfRangeError(
        fmt::format("failures is {}, the table was made for 0 to {}", failures, max_failures_));
  }
  return Expand(PlacesOf(request_.parallel, LastPlacement(request_.parallel, failures)));
}

Status PlanTable::CheckAllLines(const ParallelFor& parallel_for) const {
  std::vector<Status> results(Index(max_failures_) + 1);
  parallel_for(max_failures_ + 1,
               [&](int failures) { results[Index(failures)] = CheckLine(failures); });
  for (const Status& result : results) RC_RETURN_IF_ERROR(result);
  return OkStatus();
}

}  // namespace recycle
