// The order of what is left of an iteration after a failure (docs/RECOVERY.md): a list schedule.
//
// Whenever a worker is idle it starts, of what could start now: a regeneration, else the backward
// of a micro-batch it has begun, else a new forward if memory has room and no more are in flight
// than keep the stages below it busy, else a W. Within each kind the lowest micro-batch number
// first. Every action starts after what it needs, so the workers' orders have one order in common
// and nothing can deadlock; and as what has begun drains before anything new, the last stage always
// can, and so, by induction, can every other.
//
//   StatusOr<Schedule> order = OrderRemainder(rest);
//
// Pure, deterministic, thread-safe; about 0.2 us an action. Source: the paper's section on
// re-routing; the priorities are those of "Zero Bubble Pipeline Parallelism", Qi et al., ICLR 2024.
#ifndef RECYCLE_PLANNER_REMAINDER_H_
#define RECYCLE_PLANNER_REMAINDER_H_

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// `rest`: a plan with `initial` whose workers have the F, I, W and B that they still make, in any
// order, and no step actions; one stage per worker. Returns the same actions in the order in which
// each worker makes them. Error: kFailedPrecondition if no order keeps within the capacities, or if
// an action needs one that nobody makes.
StatusOr<Schedule> OrderRemainder(const Plan& rest);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_REMAINDER_H_
