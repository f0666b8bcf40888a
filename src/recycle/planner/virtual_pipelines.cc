#include "recycle/planner/virtual_pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/index.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/portfolio.h"

namespace recycle {
namespace {

int ChainCount(const FlatJob& job) {
  int least = job.num_pipelines;
  for (const std::vector<int>& live : job.live) {
    least = std::min(least, static_cast<int>(live.size()));
  }
  return least;
}

// By column: live pipelines, those that are live on every column first.
std::vector<std::vector<int>> WholePipelinesFirst(const FlatJob& job) {
  std::vector<int> live_columns(Index(job.num_pipelines), 0);
  for (const std::vector<int>& live : job.live) {
    for (const int k : live) ++live_columns[Index(k)];
  }
  std::vector<std::vector<int>> result = job.live;
  for (std::vector<int>& live : result) {
    std::stable_partition(live.begin(), live.end(),
                          [&](int k) { return live_columns[Index(k)] == job.num_columns; });
  }
  return result;
}

// Who runs which micro-batch of the chains at one stage.
class StageOwners {
 public:
  // Micro-batch j of chain p has the number j * chains + p, as long as that is below N.
  StageOwners(const FlatJob& job, const std::vector<int>& live, int chains, int length)
      : job_(job),
        live_(live),
        chains_(chains),
        length_(length),
        owner_(Index(job.num_micro_batches)) {
    for (int id = 0; id < job.num_micro_batches; ++id) owner_[Index(id)] = live[Index(id % chains)];
    const int surplus = static_cast<int>(live.size()) - chains;
    std::vector<int> lost(Index(chains), 0);
    for (int q = 0; q < surplus; ++q) HandOver(q, surplus, lost);
  }

  int operator[](int id) const { return owner_[Index(id)]; }

 private:
  // Surplus worker q takes evenly spaced j's, each from the chain that has lost least so far.
  void HandOver(int q, int surplus, std::vector<int>& lost) {
    const auto live_count = static_cast<int>(live_.size());
    const int share = (job_.num_micro_batches + live_count - 1) / live_count;
    int j = -1;
    for (int z = 0; z < share; ++z) {
      const std::int64_t spaced =
          (2 * (std::int64_t{z} * surplus + q) + 1) * length_ / (std::int64_t{2} * surplus * share);
      j = std::max(j + 1, static_cast<int>(spaced));
      if (j >= length_) return;
      const int giver = Giver(j, 7 * z + 3 * q, lost);
      if (giver < 0) continue;
      ++lost[Index(giver)];
      owner_[Index(j * chains_ + giver)] = live_[Index(chains_ + q)];
    }
  }

  // The chain with the least losses that still owns its micro-batch j; -1 if none does.
  int Giver(int j, int turn, const std::vector<int>& lost) const {
    int best = -1;
    for (int step = 0; step < chains_; ++step) {
      const int p = (turn + step) % chains_;
      const int id = j * chains_ + p;
      if (id >= job_.num_micro_batches || owner_[Index(id)] != live_[Index(p)]) continue;
      if (best < 0 || lost[Index(p)] < lost[Index(best)]) best = p;
    }
    return best;
  }

  const FlatJob& job_;
  const std::vector<int>& live_;
  const int chains_;
  const int length_;
  std::vector<std::int32_t> owner_;  // by micro-batch number
};

}  // namespace

int TemplateLength(const FlatJob& job) {
  const int chains = ChainCount(job);
  return (job.num_micro_batches + chains - 1) / chains;
}

StatusOr<PipelineTemplate> MakeTemplate(const FlatJob& job, int micro_batches,
                                        TemplateEffort effort) {
  const FlatJob single = SinglePipeline(job, micro_batches);
  BestOrder best(single);
  RecipeBook book;
  TryPolicies(single, Affinity::kPool, HeadPolicies(), best, book);
  if (effort == TemplateEffort::kFull && !best.AtBound()) {
    TryPolicies(single, Affinity::kPool, GridSample(single), best, book);
    ClimbFromAll(single, best, book);
  }
  if (book.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("no plan: every policy deadlocks within the capacities for {} micro-batches a "
                    "pipeline; raise --memory-cap or capacity_bytes",
                    micro_batches));
  }
  return PipelineTemplate{.micro_batches = micro_batches,
                          .recipe = book.Sorted().front(),
                          .order = best.best()->order,
                          .figures = best.best()->figures,
                          .lower_bound = best.bound()};
}

StatusOr<Order> RunRecipe(const FlatJob& job, int micro_batches, const Recipe& recipe) {
  const FlatJob single = SinglePipeline(job, micro_batches);
  ListScheduler scheduler(single, MakeSurrogate(single, recipe.policy.surrogate), recipe.affinity);
  Order order;
  if (!scheduler.Run(RulesOf(recipe, single, scheduler.times()), order)) {
    return absl::FailedPreconditionError("the template's rules deadlock for this job's capacities");
  }
  return order;
}

Order ExpandTemplate(const FlatJob& job, const Order& single) {
  const int chains = ChainCount(job);
  const int length = static_cast<int>(single.pipeline.size()) / job.num_stages;
  RC_CHECK(length >= TemplateLength(job)) << "a template of " << length << " micro-batches";
  const std::vector<std::vector<int>> live = WholePipelinesFirst(job);
  Order order;
  order.pipeline.resize(Index(job.num_slots()));
  for (int stage = 0; stage < job.num_stages; ++stage) {
    const StageOwners owners(job, live[Index(job.column[Index(stage)])], chains, length);
    for (int id = 0; id < job.num_micro_batches; ++id) {
      order.pipeline[Index(id * job.num_stages + stage)] = owners[id];
    }
  }
  order.ops.reserve(job.num_actions());
  const auto stride = static_cast<std::uint32_t>(job.num_stages) * 4;
  for (const std::uint32_t op : single.ops) {
    const int j = job.MicroBatchAt(Order::SlotOf(op));
    const std::uint32_t within = op - static_cast<std::uint32_t>(j) * stride;
    const int end = std::min((j + 1) * chains, job.num_micro_batches);
    for (int id = j * chains; id < end; ++id) {
      order.ops.push_back(static_cast<std::uint32_t>(id) * stride + within);
    }
  }
  return order;
}

}  // namespace recycle
