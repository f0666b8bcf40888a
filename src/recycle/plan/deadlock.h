// Rule 3 of legal plans: no deadlock. Kahn's algorithm on the graph of precedence edges (inputs)
// and machine edges (a worker's order), with the barriers of REDUCE_GRAD and of synchronous
// VALIDATEs. Used by validate.cc only; pure.
#ifndef RECYCLE_PLAN_DEADLOCK_H_
#define RECYCLE_PLAN_DEADLOCK_H_

#include <cstddef>
#include <vector>

#include "recycle/plan/plan.h"
#include "recycle/plan/validate.h"

namespace recycle {

// One violation for each action of a cycle of waiting workers, at most `limit`; empty if every
// action can run. Needs ids in range. Inputs that no worker runs are taken as there (rule 1 reports
// them).
std::vector<Violation> FindDeadlock(const Plan& plan, std::size_t limit);

}  // namespace recycle

#endif  // RECYCLE_PLAN_DEADLOCK_H_
