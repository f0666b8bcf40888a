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

// Every stage has as many live workers, all equally fast: then one pipeline's search covers the
// job.
bool IsEven(const FlatJob& job) {
  return !job.has_stragglers &&
         std::all_of(job.live.begin(), job.live.end(), [&](const std::vector<int>& live) {
           return live.size() == job.live.front().size();
         });
}

// One affinity's share of the whole search; the recipe to climb from, if that is worth it.
std::optional<Recipe> TryPoliciesAndGrid(const FlatJob& job, Affinity affinity, BestOrder& best) {
  std::optional<Recipe> head = TryPolicies(job, affinity, HeadPolicies(), best);
  if (IsEven(job)) return std::nullopt;
  return Better(std::move(head), TryPolicies(job, affinity, GridSample(job), best));
}

StatusOr<TimedOrder> BestOf(BestOrder& best) {
  if (best.best().has_value()) return *best.best();
  return absl::FailedPreconditionError(
      "no plan: every candidate deadlocks within the capacities (hint: raise capacity_bytes)");
}

}  // namespace

StatusOr<TimedOrder> MakeAdaptive(const FlatJob& job, Affinity affinity, Effort effort) {
  BestOrder best(job);
  const bool may_pool = affinity != Affinity::kStrict;
  if (effort == Effort::kOnline) {
    if (may_pool) TryVirtualPipelines(job, TemplateEffort::kHead, best);
    if (!best.best().has_value()) {
      const Affinity kind = may_pool ? Affinity::kPool : Affinity::kStrict;
      TryPolicies(job, kind, HeadPolicies(), best);
    }
    return BestOf(best);
  }
  if (const StatusOr<Order> naive = MakeNaive(job); naive.ok()) best.Offer(*naive);
  if (may_pool) TryVirtualPipelines(job, TemplateEffort::kFull, best);
  std::optional<Recipe> recipe;
  if (affinity != Affinity::kPool) recipe = TryPoliciesAndGrid(job, Affinity::kStrict, best);
  if (may_pool) recipe = Better(recipe, TryPoliciesAndGrid(job, Affinity::kPool, best));
  if (recipe.has_value()) HillClimb(job, *recipe, RunBudget(job), best);
  return BestOf(best);
}

}  // namespace recycle
