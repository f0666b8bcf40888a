#include "recycle/planner/normalization.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/planner/bounds.h"

namespace recycle {
namespace {

std::vector<int> EvenPlacement(const Parallelism& parallel, int failures) {
  const int pp = parallel.pipeline;
  const int rest = failures % pp;
  std::vector<int> counts(Index(pp), failures / pp);
  for (int z = 0; z < rest; ++z) ++counts[Index((2 * z + 1) * pp / (2 * rest))];
  return counts;
}

// Adds `more` failures to `counts` one by one, each to the stage below `limit` whose lower bound
// with it is least; the last such stage on a tie (later stages have memory to spare).
void AddByBound(const FlatJob& job, int more, int limit, std::vector<int>& counts) {
  for (int n = 0; n < more; ++n) {
    int best = -1;
    Ticks best_bound = 0;
    for (int i = job.num_columns - 1; i >= 0; --i) {
      if (counts[Index(i)] >= limit) continue;
      const Ticks bound = StageLowerBound(job, i, job.num_pipelines - counts[Index(i)] - 1);
      if (best < 0 || bound < best_bound) {
        best = i;
        best_bound = bound;
      }
    }
    RC_CHECK(best >= 0) << "no stage below " << limit << " failures";
    ++counts[Index(best)];
  }
}

void AddToLast(int more, int limit, std::vector<int>& counts) {
  for (std::size_t i = counts.size(); i-- > 0 && more > 0;) {
    const int taken = std::clamp(limit - counts[i], 0, more);
    counts[i] += taken;
    more -= taken;
  }
}

// Dead places, and what may be moved onto them.
class Places {
 public:
  Places(const Parallelism& parallel, const std::vector<WorkerId>& failed)
      : parallel_(parallel), dead_(failed.begin(), failed.end()) {}

  std::vector<int> Counts() const {
    std::vector<int> counts(Index(parallel_.pipeline), 0);
    for (const WorkerId worker : dead_) ++counts[Index(worker.stage.value())];
    return counts;
  }

  std::vector<WorkerId> failed() const { return {dead_.begin(), dead_.end()}; }

  // Turns a live worker of stage `from` into a dead place of stage `to`. The place revived is on
  // the pipeline with fewest dead, the worker given up on the one with most: whole pipelines become
  // more.
  CopyMove Move(int from, int to) {
    std::optional<WorkerId> revived;
    std::optional<WorkerId> given;
    for (int k = 0; k < parallel_.data; ++k) {
      const WorkerId place{PipelineId(k), StageId(to)};
      if (dead_.contains(place) && (!revived || DeadOf(k) < DeadOf(revived->pipeline.value()))) {
        revived = place;
      }
      const WorkerId worker{PipelineId(k), StageId(from)};
      if (!dead_.contains(worker) && (!given || DeadOf(k) >= DeadOf(given->pipeline.value()))) {
        given = worker;
      }
    }
    RC_CHECK(revived.has_value() && given.has_value()) << "stages " << from << " and " << to;
    dead_.erase(*revived);
    dead_.insert(*given);
    return CopyMove{.from = *given, .to = *revived};
  }

 private:
  int DeadOf(int pipeline) const {
    return static_cast<int>(std::count_if(dead_.begin(), dead_.end(), [&](WorkerId worker) {
      return worker.pipeline.value() == pipeline;
    }));
  }

  const Parallelism& parallel_;
  std::set<WorkerId> dead_;
};

// The moves that turn the counts of `places` into `target`, applied to `places`.
std::vector<CopyMove> MovesTo(const std::vector<int>& target, Places& places) {
  std::vector<int> counts = places.Counts();
  std::vector<CopyMove> moves;
  int from = 0;
  for (int to = 0; to < static_cast<int>(counts.size()); ++to) {
    while (counts[Index(to)] > target[Index(to)]) {
      while (counts[Index(from)] >= target[Index(from)]) ++from;
      moves.push_back(places.Move(from, to));
      --counts[Index(to)];
      ++counts[Index(from)];
    }
  }
  return moves;
}

double CopyBytes(const PlanRequest& request, int column) {
  double bytes = 0;
  for (int stage = 0; stage < request.parallel.num_stages(); ++stage) {
    if (request.parallel.Column(StageId(stage)).value() != column) continue;
    const StageCosts& costs = request.costs.stages[Index(stage)];
    bytes += costs.state_bytes > 0 ? costs.state_bytes : costs.parameter_bytes;
  }
  return bytes;
}

// A straggler that is moved to another stage keeps its speed; one that is given up leaves the list.
std::vector<SlowWorker> MovedStragglers(const std::vector<SlowWorker>& slow,
                                        const std::vector<CopyMove>& moves) {
  std::vector<SlowWorker> result = slow;
  for (const CopyMove& move : moves) {
    for (SlowWorker& entry : result) {
      if (entry.worker == move.from) entry.worker = move.to;
    }
  }
  return result;
}

PlanRequest AfterMoves(const PlanRequest& request, const std::vector<CopyMove>& moves) {
  PlanRequest moved = request;
  for (const CopyMove& move : moves) {
    std::replace(moved.failed.begin(), moved.failed.end(), move.to, move.from);
  }
  moved.slow = MovedStragglers(request.slow, moves);
  return moved;
}

StatusOr<std::vector<NormalizationMove>> ReportMoves(const PlanRequest& request,
                                                     const std::vector<CopyMove>& moves) {
  std::vector<NormalizationMove> report;
  PlanRequest online = request;
  online.effort = Effort::kOnline;
  RC_ASSIGN_OR_RETURN(Plan before, MakePlan(online));
  for (std::size_t n = 0; n < moves.size(); ++n) {
    const std::vector<CopyMove> so_far(moves.begin(),
                                       moves.begin() + static_cast<std::ptrdiff_t>(n) + 1);
    RC_ASSIGN_OR_RETURN(Plan after, MakePlan(AfterMoves(online, so_far)));
    report.push_back({.copy = moves[n],
                      .bytes = CopyBytes(request, moves[n].to.stage.value()),
                      .period_without = *before.period,
                      .period_with = *after.period});
    before = std::move(after);
  }
  return report;
}

}  // namespace

int LeastMaximum(const Parallelism& parallel, int failures) {
  return (failures + parallel.pipeline - 1) / parallel.pipeline;
}

std::vector<int> LastPlacement(const Parallelism& parallel, int failures) {
  std::vector<int> counts(Index(parallel.pipeline), failures / parallel.pipeline);
  for (int i = parallel.pipeline - failures % parallel.pipeline; i < parallel.pipeline; ++i) {
    ++counts[Index(i)];
  }
  return counts;
}

std::vector<std::vector<int>> CandidatePlacements(const FlatJob& fault_free, int failures) {
  const Parallelism parallel{.data = fault_free.num_pipelines, .pipeline = fault_free.num_columns};
  std::vector<std::vector<int>> placements = {LastPlacement(parallel, failures),
                                              EvenPlacement(parallel, failures)};
  if (fault_free.num_stages == fault_free.num_columns) {
    std::vector<int> by_bound(Index(parallel.pipeline), 0);
    AddByBound(fault_free, failures, LeastMaximum(parallel, failures), by_bound);
    placements.push_back(std::move(by_bound));
  }
  std::vector<std::vector<int>> distinct;
  for (std::vector<int>& placement : placements) {
    if (std::find(distinct.begin(), distinct.end(), placement) == distinct.end()) {
      distinct.push_back(std::move(placement));
    }
  }
  return distinct;
}

std::vector<WorkerId> PlacesOf(const Parallelism& parallel, const std::vector<int>& per_stage) {
  std::vector<WorkerId> places;
  for (int i = 0; i < static_cast<int>(per_stage.size()); ++i) {
    for (int f = 1; f <= per_stage[Index(i)]; ++f) {
      places.push_back(WorkerId{PipelineId(parallel.data - f), StageId(i)});
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

StatusOr<Plan> PlanForFailureCount(const PlanRequest& request, int failures) {
  RC_CHECK(request.failed.empty()) << "--failures chooses the places itself";
  const int most = request.parallel.num_workers() - request.parallel.pipeline;
  if (failures < 0 || failures > most) {
    return absl::InvalidArgumentError(
        fmt::format("failures is {}, but must be 0 to {}, as every stage needs a live worker; the "
                    "nearest valid "
                    "choice is {}",
                    failures, most, std::clamp(failures, 0, most)));
  }
  RC_ASSIGN_OR_RETURN(const FlatJob fault_free, MakeFlatJob(request));
  std::optional<Plan> best;
  for (const std::vector<int>& placement : CandidatePlacements(fault_free, failures)) {
    PlanRequest placed = request;
    placed.failed = PlacesOf(request.parallel, placement);
    RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(placed));
    if (best.has_value() && LowerBound(job) >= *best->period) continue;
    RC_ASSIGN_OR_RETURN(Plan plan, MakePlan(placed));
    if (!best.has_value() || *plan.period < *best->period) best = std::move(plan);
  }
  return *std::move(best);
}

StatusOr<NormalizedPlan> NormalizeFailures(const PlanRequest& request, int extra) {
  if (extra < 0) {
    return absl::InvalidArgumentError(
        fmt::format("normalize is {}, must be 0 or more extra failures per stage", extra));
  }
  RC_ASSIGN_OR_RETURN(const FlatJob job, MakeFlatJob(request));
  const auto failures = static_cast<int>(request.failed.size());
  const int limit = std::min(LeastMaximum(request.parallel, failures) + extra,
                             std::max(0, request.parallel.data - 1));
  const Places places(request.parallel, request.failed);
  std::vector<int> clipped = places.Counts();
  int surplus = 0;
  for (int& count : clipped) {
    surplus += std::max(0, count - limit);
    count = std::min(count, limit);
  }
  std::vector<std::vector<int>> targets(1, clipped);
  AddToLast(surplus, limit, targets.front());
  if (job.num_stages == job.num_columns) {
    targets.push_back(clipped);
    AddByBound(job, surplus, limit, targets.back());
  }
  std::optional<NormalizedPlan> best;
  std::vector<CopyMove> best_moves;
  for (const std::vector<int>& target : targets) {
    if (best.has_value() && target == targets.front()) continue;
    Places moved = places;
    const std::vector<CopyMove> moves = MovesTo(target, moved);
    RC_ASSIGN_OR_RETURN(Plan plan, MakePlan(AfterMoves(request, moves)));
    if (best.has_value() && *plan.period >= *best->plan.period) continue;
    plan.copies = moves;
    best = NormalizedPlan{.plan = std::move(plan), .moves = {}};
    best_moves = moves;
  }
  RC_ASSIGN_OR_RETURN(best->moves, ReportMoves(request, best_moves));
  return *std::move(best);
}

}  // namespace recycle
