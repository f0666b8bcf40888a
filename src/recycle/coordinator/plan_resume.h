// What runs of the open iterations after a change of membership: only what died. Pure.
//
// Per open iteration t and unit (the stages that step together: one, or {first, last} with tied
// embeddings): if some live member of each of its stages holds the reduced gradient, the unit is
// committed and repeats nothing; else it is open, nobody has stepped it, and what the dead had of
// it runs again on its peers from wherever it stopped. A boundary tensor that is still needed comes
// from the inbox it has reached, out of a live log, from the action that makes it, or, if its only
// log died with a committed stage's worker, from a regeneration: F, or F and I, with the parameters
// of t, without W and without progress. A demand closure finds these, so failures of neighbours
// need no case of their own. Started micro-batches never move.
//
// A verdict that corrects a step which stages have made already: what its iteration's successor has
// is void, at everyone who has not applied the verdict yet, also at those who have not stepped.
//
// A quantum that somebody's gradient did not fit (reproducible sums): the stage, with tied
// embeddings the first and the last together, gives up what it has of that iteration and does it
// again out of its neighbours' logs. Nobody else repeats anything.
//
//   StatusOr<ResumeDecision> decision = PlanResume(
//       {.plan = plan, .ledgers = ledgers, .iterations = 200, .tied = false}, order_remainder);
//
// Thread-safe. Needs one stage per worker.
#ifndef RECYCLE_COORDINATOR_PLAN_RESUME_H_
#define RECYCLE_COORDINATOR_PLAN_RESUME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// The order in which every worker makes the F, I, W and B that `rest` gives it (in no order); with
// `initial`, without step actions. Handed in by app, so that the core knows no planner. Error:
// kFailedPrecondition if no order keeps within the capacities.
using OrderRemainderFunction = std::function<StatusOr<Schedule>(const Plan& rest)>;

struct ResumeQuestion {
  const Plan& plan;                           // of whole iterations, for exactly the members
  const std::map<WorkerId, Ledger>& ledgers;  // one per member
  std::int32_t iterations = 0;                // of the job
  bool tied = false;                          // first and last stage are one unit
};

// The workers of a stage return to the bits before their step.
struct Rollback {
  StageId stage;
  Verdict verdict;
};

struct ResumeDecision {
  std::vector<OpenIteration> open;
  std::int32_t next_iteration = 0;
  bool repeat_validation = false;
  std::vector<Verdict> verdicts;    // known to any of the members, ascending
  std::vector<Rollback> rollbacks;  // by stage
  std::vector<Quantum> quanta;      // known to any of the members or wanted, by stage and iteration
  std::vector<Quantum> redone;      // those of them that were wanted
  int regenerated_actions = 0;      // F and I on committed stages, over all of `open`
  // Joiners that lack a gradient which nobody keeps any more: their donor died before it could hand
  // it over. Without them there is a decision; this one is void.
  std::vector<WorkerId> stranded;
};

// Errors: kDataLoss if a boundary tensor can be made by nobody any more (all members of a stage
// that had the parameters of its iteration are gone); kFailedPrecondition if the ledgers contradict
// each other or the rules, naming the workers; what `order` returns.
StatusOr<ResumeDecision> PlanResume(const ResumeQuestion& question,
                                    const OrderRemainderFunction& order);

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_PLAN_RESUME_H_
