// What the two integer programs behind exact.h share.
#ifndef RECYCLE_PLANNER_EXACT_MODELS_H_
#define RECYCLE_PLANNER_EXACT_MODELS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "recycle/planner/flat_job.h"
#include "recycle/planner/milp.h"
#include "recycle/planner/order.h"

namespace recycle {

// By slot: the pipelines whose worker may run it.
using Candidates = std::vector<std::vector<int>>;

// What a model found out about periods of at most a target.
struct ModelAnswer {
  Milp::Outcome outcome = Milp::Outcome::kUnknown;
  std::optional<Order> order;  // a plan within the target, if one was found
  Ticks bound = 0;             // no plan has a shorter period, as far as the model could prove
};

// F, I, W; or F, B.
std::vector<ActionKind> KindsOf(const FlatJob& job);

// What an action of `kind` adds to its worker's memory, in the end.
double BytesTaken(const StageCosts& costs, ActionKind kind);

// Action `after` may start `lag` ticks after the end of `before`.
struct Precedence {
  std::uint32_t before;
  std::uint32_t after;
  Ticks lag;
};

// Within slots and between stages; not between actions of one worker.
std::vector<Precedence> PrecedencesOf(const FlatJob& job);

// The next micro-batch that may be swapped with `micro_batch` in any plan; -1 if there is none.
int TwinOf(const FlatJob& job, const Candidates& candidates, int micro_batch);

// Start times and workers made into an order; nothing if rounding made it illegal.
std::optional<Order> OrderFromStarts(const FlatJob& job,
                                     const std::map<std::uint32_t, double>& starts,
                                     std::vector<std::int32_t> pipeline);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_EXACT_MODELS_H_
