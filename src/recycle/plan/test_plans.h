// Plans for tests: written out by hand, or drawn at random. Test-only.
#ifndef RECYCLE_PLAN_TEST_PLANS_H_
#define RECYCLE_PLAN_TEST_PLANS_H_

#include "recycle/base/prng.h"
#include "recycle/plan/plan.h"

namespace recycle {

// F = I = W = `unit` on every stage, activations of 1 byte kept until W, no sends, no steps.
CostProfile UnitCosts(int stages);

// A plan without failures with one hand-made order per pipeline: `order(stage)` lists the stage's
// actions by kind and micro-batch number.
Plan GPipePlan(int data, int pipeline, int micro_batches);
Plan OneFOneBPlan(int data, int pipeline, int micro_batches);

// What RandomPlan may draw.
struct RandomPlanLimits {
  int data = 5;
  int pipeline = 6;
  int micro_batches = 8;
  bool failures = true;
  bool virtual_stages = false;
};

// A legal plan: random shape, costs, failures, stragglers and options, every micro-batch on a
// random live worker, every worker's order taken from a random topological order of all actions.
Plan RandomPlan(Prng& prng, const RandomPlanLimits& limits);

}  // namespace recycle

#endif  // RECYCLE_PLAN_TEST_PLANS_H_
