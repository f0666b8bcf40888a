#include "recycle/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "recycle/planner/adaptive.h"
#include "recycle/planner/baselines.h"
#include "recycle/planner/best_order.h"
#include "recycle/planner/exact.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/interleaved.h"
#include "recycle/planner/order.h"
#include "recycle/planner/plan_builder.h"
#include "recycle/planner/virtual_pipelines.h"
#include "recycle/planner/zero_bubble.h"

namespace recycle {
namespace {

constexpr std::array<std::pair<Method, std::string_view>, 9> kMethods = {{
    {Method::kAdaptive, "adaptive"},
    {Method::kGPipe, "gpipe"},
    {Method::kOneFOneB, "1f1b"},
    {Method::kInterleaved, "interleaved"},
    {Method::kZbH1, "zb-h1"},
    {Method::kZbH2, "zb-h2"},
    {Method::kZbV, "zb-v"},
    {Method::kNaive, "naive"},
    {Method::kExact, "exact"},
}};

// Methods whose backward is B and whose steps are synchronous by definition.
bool IsCoupledAndSynchronous(Method method) {
  return method == Method::kGPipe || method == Method::kOneFOneB ||
         method == Method::kInterleaved || method == Method::kNaive;
}

bool IsFaultFree(Method method) {
  return method != Method::kAdaptive && method != Method::kNaive && method != Method::kExact;
}

// The V placement's schedule: the handcrafted one, or, where times are not equal, what the template
// search finds on one pipeline if that is shorter. Where no capacity is stated it keeps to 1F1B's
// peak, PP micro-batches, as the method promises.
StatusOr<Order> MakeBestZbV(FlatJob job) {
  for (int column = 0; column < job.num_columns; ++column) {
    double whole = 0;
    for (int stage = 0; stage < job.num_stages; ++stage) {
      if (job.column[static_cast<std::size_t>(stage)] != column) continue;
      whole += job.stages[static_cast<std::size_t>(stage)].activation_bytes;
    }
    double& capacity = job.capacity[static_cast<std::size_t>(column)];
    if (std::isinf(capacity)) capacity = job.num_columns * whole * kCapacitySlack;
  }
  BestOrder best(job);
  if (const StatusOr<Order> handcrafted = MakeZbV(job); handcrafted.ok()) best.Offer(*handcrafted);
  if (!best.AtBound()) {
    const StatusOr<PipelineTemplate> single =
        MakeTemplate(job, job.micro_batches, TemplateEffort::kFull);
    if (single.ok()) best.Offer(ExpandTemplate(job, single->order));
    if (!best.best().has_value()) return single.status();
  }
  return best.best()->order;
}

// The order of a method that makes one without timing it.
StatusOr<Order> MakeOrder(const PlanRequest& request, const FlatJob& job) {
  switch (request.method) {
    case Method::kGPipe:
      return MakeGPipe(job);
    case Method::kOneFOneB:
      return MakeOneFOneB(job);
    case Method::kNaive:
      return MakeNaive(job);
    case Method::kInterleaved:
      return MakeInterleaved(job);
    case Method::kZbH1:
      return MakeZbH1(job);
    case Method::kZbH2:
      return MakeZbH2(job);
    case Method::kZbV:
      return MakeBestZbV(job);
    case Method::kAdaptive:
    case Method::kExact:
      break;
  }
  return absl::InternalError("methods adaptive and exact time what they make");
}

// Each worker's stages in one; the sends are those between the lowest stages.
CostProfile MergeVirtualStages(const CostProfile& costs, const Parallelism& parallel) {
  const auto columns = static_cast<std::size_t>(parallel.pipeline);
  CostProfile merged;
  merged.unit = costs.unit;
  merged.stages.resize(columns);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageId column = parallel.Column(StageId(static_cast<std::int32_t>(stage)));
    StageCosts& whole = merged.stages[static_cast<std::size_t>(column.value())];
    const StageCosts& part = costs.stages[stage];
    whole.forward += part.forward;
    whole.backward_input += part.backward_input;
    whole.backward_weight += part.backward_weight;
    whole.optimizer += part.optimizer;
    whole.all_reduce += part.all_reduce;
    whole.activation_bytes += part.activation_bytes;
    whole.deferred_bytes += part.deferred_bytes;
  }
  merged.send_forward.assign(costs.send_forward.begin(),
                             costs.send_forward.begin() + parallel.pipeline - 1);
  merged.send_backward.assign(costs.send_backward.begin(),
                              costs.send_backward.begin() + parallel.pipeline - 1);
  return merged;
}

}  // namespace

std::string_view MethodText(Method method) {
  return std::find_if(kMethods.begin(), kMethods.end(),
                      [&](const auto& entry) { return entry.first == method; })
      ->second;
}

StatusOr<Method> ParseMethod(std::string_view text) {
  std::string names;
  for (const auto& [method, name] : kMethods) {
    if (name == text) return method;
    names += names.empty() ? "" : ", ";
    names += name;
  }
  return absl::InvalidArgumentError(fmt::format("method '{}' must be one of {}", text, names));
}

StatusOr<Affinity> ParseAffinity(std::string_view text) {
  if (text == "pool") return Affinity::kPool;
  if (text == "strict") return Affinity::kStrict;
  return absl::InvalidArgumentError(fmt::format("affinity '{}' must be pool or strict", text));
}

Status CheckMethod(const PlanRequest& request) {
  if (IsFaultFree(request.method) && !request.failed.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("method is {}, a fault-free schedule, but {} workers have failed; the nearest "
                    "valid choice is adaptive",
                    MethodText(request.method), request.failed.size()));
  }
  const Parallelism& parallel = request.parallel;
  const bool is_v = parallel.virtual_stages == 2 && parallel.placement == Placement::kV;
  const bool is_interleaved =
      parallel.virtual_stages > 1 && parallel.placement == Placement::kInterleaved;
  if (request.method == Method::kInterleaved && !is_interleaved) {
    return absl::InvalidArgumentError(fmt::format(
        "virtual stages are {}, but method interleaved has 2 or more interleaved stages a worker; "
        "the nearest valid choice is 2",
        parallel.virtual_stages));
  }
  if (request.method == Method::kZbV && !is_v) {
    return absl::InvalidArgumentError(fmt::format(
        "virtual stages are {}, but method zb-v has 2 stages a worker, in placement v; the nearest "
        "valid choice is 2",
        parallel.virtual_stages));
  }
  if (parallel.virtual_stages > 1 && request.method != Method::kAdaptive &&
      request.method != Method::kInterleaved && request.method != Method::kZbV) {
    return absl::InvalidArgumentError(
        fmt::format("virtual stages are {}, but method {} has one stage a worker; the nearest "
                    "valid choice is 1, "
                    "or method adaptive",
                    parallel.virtual_stages, MethodText(request.method)));
  }
  const bool needs_decoupling = request.method == Method::kZbH1 ||
                                request.method == Method::kZbH2 || request.method == Method::kZbV;
  if (needs_decoupling && !request.options.decoupled) {
    return absl::InvalidArgumentError(
        fmt::format("method is {}, which runs I and W apart, but they are to stay one action; the "
                    "nearest valid choice is to leave --no-decouple out",
                    MethodText(request.method)));
  }
  return OkStatus();
}

StatusOr<Plan> MakePlan(const PlanRequest& request) {
  RC_RETURN_IF_ERROR(CheckMethod(request));
  PlanRequest effective = request;
  if (IsCoupledAndSynchronous(request.method)) {
    effective.options = {.decoupled = false, .staggered = false};
  }
  if (request.method == Method::kExact) {
    RC_ASSIGN_OR_RETURN(ExactResult result, SolveExact(effective));
    return std::move(result.plan);
  }
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(effective));
  if (request.method == Method::kAdaptive) {
    RC_ASSIGN_OR_RETURN(const TimedOrder best, MakeAdaptive(job, request.affinity, request.effort));
    return BuildPlan(effective, job, best.order, best.figures);
  }
  RC_ASSIGN_OR_RETURN(const Order order, MakeOrder(effective, job));
  return BuildPlan(effective, job, order);
}

StatusOr<Ticks> FaultFreeOneFOneBPeriod(const PlanRequest& request) {
  PlanRequest fault_free = request;
  fault_free.failed.clear();
  fault_free.slow.clear();
  for (StageCosts& stage : fault_free.costs.stages) stage.capacity_bytes.reset();
  RC_RETURN_IF_ERROR(MakeFlatJob(fault_free).status());
  fault_free.costs = MergeVirtualStages(request.costs, request.parallel);
  fault_free.parallel.virtual_stages = 1;
  fault_free.parallel.placement = Placement::kInterleaved;
  fault_free.options = {.decoupled = false, .staggered = false};
  fault_free.parallel.data = 1;  // pipelines do not influence one another
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(fault_free));
  RC_ASSIGN_OR_RETURN(const Order order, MakeOneFOneB(job));
  return EvaluateOrder(job, order).period;
}

}  // namespace recycle
