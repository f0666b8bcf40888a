// Costs from the command line: --cost F=1,I=1,W=1,send=0,opt=0,allreduce=0,deferred=1, --memory-cap
// and
// --virtual.
//
// Both --cost and profiles state the share of a whole worker: with virtual stages each of its v
// stages gets 1/v of everything but the sends. Pure.
#ifndef RECYCLE_PLANNER_COST_OPTIONS_H_
#define RECYCLE_PLANNER_COST_OPTIONS_H_

#include <string_view>

#include "recycle/base/status.h"
#include "recycle/plan/costs.h"
#include "recycle/plan/plan.h"

namespace recycle {

// The same costs on every worker, in cost units; activation_bytes is 1.
struct UniformCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double send = 0;
  double optimizer = 0;
  double all_reduce = 0;
  double deferred = 1;  // deferred_bytes: 1 = everything is kept until W
};

// Parses "F=1,I=1.05,W=0.85,send=0.05"; keys left out keep their defaults. Error: kInvalidArgument
// naming the key or value and the valid keys.
StatusOr<UniformCosts> ParseUniformCosts(std::string_view text);

// One entry per stage of `parallel`, unit "unit", no capacities. Error: kInvalidArgument for values
// that are negative, not finite or too large.
StatusOr<CostProfile> MakeUniformProfile(const UniformCosts& costs, const Parallelism& parallel);

// A profile with one entry per worker column, spread over the worker's virtual stages. The identity
// when there are none. Error: kInvalidArgument if the profile does not have PP entries, or if its
// sends differ (virtual stages have more boundaries than it states).
StatusOr<CostProfile> SpreadOverVirtualStages(const CostProfile& per_worker,
                                              const Parallelism& parallel);

// Sets every worker's capacity: "none" (no limit), "1f1b" (PP - i micro-batches at stage i), or a
// number of whole micro-batches of the worker, e.g. "4". Error: kInvalidArgument.
Status ApplyMemoryCap(std::string_view cap, const Parallelism& parallel, CostProfile& costs);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_COST_OPTIONS_H_
