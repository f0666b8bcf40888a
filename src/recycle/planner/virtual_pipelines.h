// Virtual pipelines: the base plan for any failures.
//
// The live workers are re-paired into as many full chains as the stage that was hit hardest has
// live workers; each chain runs the *same* schedule of a single pipeline (the template), so the
// search works on n * PP * 3 actions instead of DP * M * PP * 3, and one template serves every
// failure set with the same largest count. Surplus workers of other stages take evenly spaced
// micro-batches off the chains, at the times the chains would have run them: no conflict is
// possible, and memory and order are inherited.
//
//   StatusOr<PipelineTemplate> t = MakeTemplate(job, TemplateLength(job), TemplateEffort::kFull);
//   Order order = ExpandTemplate(job, t->order);
//
// Needs a job without stragglers (times would differ between chains). Pure.
#ifndef RECYCLE_PLANNER_VIRTUAL_PIPELINES_H_
#define RECYCLE_PLANNER_VIRTUAL_PIPELINES_H_

#include "recycle/base/status.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/hill_climb.h"
#include "recycle/planner/order.h"

namespace recycle {

// A schedule of one pipeline.
struct PipelineTemplate {
  int micro_batches = 0;  // n
  Recipe recipe;          // makes `order` again
  Order order;
  PlanFigures figures;
  Ticks lower_bound = 0;  // of the single pipeline
};

// Micro-batches of each chain: ceil(N / least live count).
int TemplateLength(const FlatJob& job);

enum class TemplateEffort : std::uint8_t {
  kHead,  // the head policies: up to a few ms
  kFull,  // then the grid and the hill climb
};

// The best template of `micro_batches` at the costs and options of `job`. Error:
// kFailedPrecondition if every policy deadlocks within the capacities.
StatusOr<PipelineTemplate> MakeTemplate(const FlatJob& job, int micro_batches,
                                        TemplateEffort effort);

// The order `recipe` makes for one pipeline of `micro_batches`: the same bits on every machine.
StatusOr<Order> RunRecipe(const FlatJob& job, int micro_batches, const Recipe& recipe);

// The whole job's order. `single` has at least TemplateLength(job) micro-batches.
Order ExpandTemplate(const FlatJob& job, const Order& single);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_VIRTUAL_PIPELINES_H_
