#include "recycle/planner/adaptive.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "recycle/planner/baselines.h"
#include "recycle/planner/portfolio.h"
#include "recycle/planner/virtual_pipelines.h"

namespace recycle {
namespace {

void TryVirtualPipelines(const FlatJob& job, TemplateEffort effort, BestOrder& best) {
  if (best.AtBound() || job.has_stragglers) return;
  const StatusOr<PipelineTemplate> single = MakeTemplate(job, TemplateLength(job), effort);
  if (single.ok()) best.Offer(ExpandTemplate(job, single->order));
}

// Naive re-routing, unless it cannot be better than what is there.
void TryNaive(const FlatJob& job, BestOrder& best) {
  if (job.num_stages != job.num_columns || best.AtBound()) return;
  if (best.best().has_value() && best.best()->figures.period <= NaiveLowerBound(job)) return;
  if (const StatusOr<Order> naive = MakeNaive(job); naive.ok()) best.Offer(*naive);
}

// Every stage has as many live workers as any other, all equally fast.
bool IsEven(const FlatJob& job) {
  return !job.has_stragglers &&
         std::all_of(job.live.begin(), job.live.end(), [&](const std::vector<int>& live) {
           return live.size() == job.live.front().size();
         });
}

StatusOr<TimedOrder> BestOf(BestOrder& best) {
  if (best.best().has_value()) return *best.best();
  return absl::FailedPreconditionError(
      "no plan: every candidate deadlocks within the capacities; raise --memory-cap or "
      "capacity_bytes");
}

}  // namespace

StatusOr<TimedOrder> MakeAdaptive(const FlatJob& job, Affinity affinity, Effort effort) {
  BestOrder best(job);
  std::vector<Affinity> kinds;
  if (affinity != Affinity::kPool) kinds.push_back(Affinity::kStrict);
  if (affinity != Affinity::kStrict) kinds.push_back(Affinity::kPool);
  const bool may_pool = affinity != Affinity::kStrict;
  RecipeBook book;
  if (effort == Effort::kOnline) {
    if (may_pool) TryVirtualPipelines(job, TemplateEffort::kHead, best);
    if (!best.best().has_value()) TryPolicies(job, kinds.back(), HeadPolicies(), best, book);
    TryNaive(job, best);
    return BestOf(best);
  }
  TryNaive(job, best);
  if (may_pool) TryVirtualPipelines(job, TemplateEffort::kFull, best);
  for (const Affinity kind : kinds) TryPolicies(job, kind, HeadPolicies(), best, book);
  if (may_pool && IsEven(job)) return BestOf(best);  // one pipeline's search covers the job
  for (const Affinity kind : kinds) TryPolicies(job, kind, GridSample(job), best, book);
  if (!best.AtBound()) ClimbFromAll(job, best, book);
  return BestOf(best);
}

}  // namespace recycle
