// The planner's face: a job, its costs and its failures in; a full, legal, timed Plan out.
//
//   PlanRequest request;
//   request.parallel = {.data = 3, .pipeline = 4};
//   request.micro_batches = 6;
//   request.costs = costs;                                      // one entry per stage
//   request.failed = {WorkerId{PipelineId(1), StageId(2)}};
//   StatusOr<Plan> plan = MakePlan(request);                    // plan->period, plan->workers, ...
//
// Pure and deterministic: equal requests give equal bytes on every machine and thread count.
// Budgets are counted in scheduler runs, never in seconds (Method::kExact alone has a time limit).
// Everything here may be called from several threads at once.
#ifndef RECYCLE_PLANNER_PLANNER_H_
#define RECYCLE_PLANNER_PLANNER_H_

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// How the schedule is made. All but kAdaptive, kNaive and kExact are the fault-free schedules of
// their papers and refuse failures.
enum class Method : std::uint8_t {
  kAdaptive,     // the best of everything below section "adaptive" in docs/planner.md
  kGPipe,        // all forwards, then all backwards
  kOneFOneB,     // PipeDream-flush / DAPPLE
  kInterleaved,  // Megatron-LM's interleaved 1F1B; virtual stages
  kZbH1,         // Zero Bubble, 1F1B's peak memory
  kZbH2,         // Zero Bubble, about twice that
  kZbV,          // Zero Bubble's V placement: two stages a worker
  kNaive,        // re-routing without any of the techniques; the baseline of the paper
  kExact,        // the optimum by MILP; small jobs only
};

// "adaptive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "naive", "exact".
std::string_view MethodText(Method method);
// The inverse. Error: kInvalidArgument listing the valid names.
StatusOr<Method> ParseMethod(std::string_view text);

// Who may run a micro-batch whose home worker lives.
enum class Affinity : std::uint8_t {
  kAny,     // candidates of both kinds compete; at equal period the one that moves less wins
  kPool,    // any live peer
  kStrict,  // its home worker; only orphans move
};

// "pool" or "strict". Error: kInvalidArgument.
StatusOr<Affinity> ParseAffinity(std::string_view text);

// How long the adaptive method may search, in scheduler runs.
enum class Effort : std::uint8_t {
  kOnline,  // one template (virtual pipelines), or one list pass: a few ms; for replanning in a run
  kFull,    // the whole portfolio with policy grid and hill climb
};

struct PlanRequest {
  Parallelism parallel;
  int micro_batches = 1;         // M, per pipeline
  CostProfile costs;             // stages.size() == parallel.num_stages()
  std::vector<WorkerId> failed;  // dead workers, in any order
  std::vector<SlowWorker> slow;  // stragglers among the live ones
  PlanOptions options;  // gpipe, 1f1b, interleaved and naive ignore them: coupled, synchronous
  Method method = Method::kAdaptive;
  Affinity affinity = Affinity::kAny;
  Effort effort = Effort::kFull;
  std::chrono::milliseconds time_limit{60'000};  // kExact only
};

// Whether the request's method exists for its virtual stages, options and failures: what MakePlan
// looks at first, for callers whose costs depend on the stages. Error: kInvalidArgument.
Status CheckMethod(const PlanRequest& request);

// A legal plan with explicit step actions, its figures (makespan, period, lower_bound) and its
// method. Errors: kInvalidArgument (the request makes no sense: the message has the value, the rule
// and the nearest valid choice), kFailedPrecondition ("no plan: stage 2 has no live worker", or no
// schedule within the capacities).
StatusOr<Plan> MakePlan(const PlanRequest& request);

// Period of fault-free 1F1B at the same costs, whatever the request's capacity, method, failures,
// stragglers and options are: the reference of relative throughput. With virtual stages: of the
// same job with each worker's stages in one. Errors as MakePlan.
StatusOr<Ticks> FaultFreeOneFOneBPeriod(const PlanRequest& request);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_PLANNER_H_
