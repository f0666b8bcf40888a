// The costs that the running plan was made with, against those that workers measure in their first
// iterations: a plan for other costs than the job has waits where it need not.
//
// Every worker tells once how long its F, I and W take (MeasuredCosts). A stage's are the medians
// over its workers, the lower one of two in the middle: one slow worker is no cost of its stage.
// Only relations count, for a schedule in twice the time is the same schedule: measured times are
// scaled so that the F of all stages together take what they take in the plan. Costs are off by the
// largest |measured / planned - 1| over stages and kinds.
//
// Once more than half of each stage's live workers have told theirs, and then never again in the
// job, it is judged: costs that are off by more than kTolerance are what every later plan is made
// with. The running plan gives way to a new one if that is faster by the measured costs, and saves
// at least one iteration until the job's end: a change of plans is a generation, which costs about
// as much.
//
//   review.Receive(worker, costs);
//   if (review.due()) { CostReview::Outcome outcome = review.Judge(...); }
//
// Not thread-safe; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_COST_REVIEW_H_
#define RECYCLE_COORDINATOR_COST_REVIEW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/coordinator/events.h"
#include "recycle/coordinator/plan_question.h"
#include "recycle/coordinator/roster.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"

namespace recycle {

// `costs` with the F, I and W of `measured` (one per stage), in the scale of `costs`: the F of all
// stages together stay what they are. Costs without any F stay as they are.
CostProfile WithMeasured(CostProfile costs, const std::vector<MeasuredCosts>& measured);

class CostReview {
 public:
  static constexpr double kTolerance = 0.1;

  // `roster` (only read) must outlive it.
  explicit CostReview(const Roster* roster) : roster_(*roster) {}

  // Another coordinator led before, and its plans were made with these; empty: it has not judged,
  // and workers tell again what they have told it.
  void TakeOver(std::vector<MeasuredCosts> measured);
  void Receive(WorkerId worker, const MeasuredCosts& costs);
  void Forget(WorkerId worker) { told_.erase(worker); }  // the process is gone

  bool due() const;

  struct Outcome {
    AnnounceCosts news;
    std::shared_ptr<const Plan> plan;  // null: the running one stays
  };
  // `running` is the answer to `question`. It is due no more.
  Outcome Judge(const Plan& running, PlanQuestion question, const MakePlanFunction& make_plan,
                std::int32_t iterations_left);

  // For every plan from now on; empty: those that the job has begun with are right.
  const std::vector<MeasuredCosts>& measured() const { return measured_; }

 private:
  std::vector<MeasuredCosts> Medians() const;

  const Roster& roster_;
  bool judged_ = false;
  std::map<WorkerId, MeasuredCosts> told_;
  std::vector<MeasuredCosts> measured_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_COST_REVIEW_H_
