// Proves a plan legal, or says why not. Written independently of the timeline.
//
// Rules (docs/PLAN_FORMAT.md): 1. every micro-batch has exactly one F, one I and one W (or one B)
// at every stage, all on one live worker of that stage; 2. each worker's order respects F before I
// before W of the same micro-batch; 3. no deadlock; 4. memory never above capacity. For plans with
// `initial` the rules hold for done + actions together, except on `committed` stages.
#ifndef RECYCLE_PLAN_VALIDATE_H_
#define RECYCLE_PLAN_VALIDATE_H_

#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// One broken rule.
struct Violation {
  int rule = 0;  // 1..4 as above, 0 = the plan's own shape (ids out of range, ...)
  std::optional<WorkerId> worker;       // where, if it has a place
  std::optional<std::size_t> position;  // index into that worker's actions
  std::string message;                  // a sentence: what, which value, which rule
};

// All violations, at most `limit`; empty = legal. Pure.
std::vector<Violation> FindViolations(const Plan& plan, std::size_t limit = 20);

// OK, or kFailedPrecondition with the first violation's message and their number.
Status Validate(const Plan& plan);

// Peak memory per live worker, in the plan's bytes, in the order of plan.workers. Needs a plan
// without violations of rules 1 and 2.
std::vector<double> PeakMemory(const Plan& plan);

}  // namespace recycle

#endif  // RECYCLE_PLAN_VALIDATE_H_
