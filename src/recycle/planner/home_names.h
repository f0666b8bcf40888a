// Gives the micro-batches of an order the names that let most work count as done at home.
//
// Micro-batches are alike until they have names, and an order does not depend on them: one that a
// chain of virtual pipelines runs on the workers 2:0, 2:1, 2:2 is best called 2.m. Timing, memory
// and legality stay as they are; fewer micro-batches are re-routed, in pictures and in the data
// that is fetched.
//
// Pure.
#ifndef RECYCLE_PLANNER_HOME_NAMES_H_
#define RECYCLE_PLANNER_HOME_NAMES_H_

#include "recycle/planner/flat_job.h"
#include "recycle/planner/order.h"

namespace recycle {

// `order` with its micro-batches renamed: each gets the home that runs it at most stages, as long
// as that home has names left (greedy, most stages first).
Order WithHomeNames(const FlatJob& job, const Order& order);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_HOME_NAMES_H_
