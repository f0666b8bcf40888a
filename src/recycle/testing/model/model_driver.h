// Runs a RecoveryModel: takes its messages to their receivers at once, and makes a whole regroup
// one event (a worker that is slow to stop is one that did nothing yet), with the real PlanResume.
//
//   ModelDriver driver(job, rules);
//   RecoveryModel model = driver.Start();
//   driver.RunRandomly(model, prng, 10);
//   driver.Regroup(model, {0}, lost);      // worker 0 dies
//   driver.RunToEnd(model, prng);
//   EXPECT_EQ(driver.problem(model), "");
//
// Test-only.
#ifndef RECYCLE_TESTING_MODEL_MODEL_DRIVER_H_
#define RECYCLE_TESTING_MODEL_MODEL_DRIVER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/coordinator/plan_resume.h"
#include "recycle/testing/model/recovery_model.h"

namespace recycle {

class ModelDriver {
 public:
  ModelDriver(const ModelJob& job, const BrokenRules& rules) : job_(job), rules_(rules) {}

  // All workers in generation 1.
  RecoveryModel Start();

  // The worker's Act, with what it sends delivered.
  static void Act(RecoveryModel& model, int worker);
  static std::vector<int> Able(const RecoveryModel& model);
  // Up to `acts` acts in a random order.
  static void RunRandomly(RecoveryModel& model, Prng& prng, int acts);
  void RunToEnd(RecoveryModel& model, Prng& prng);
  // Acts of `worker` until the head of its queue would be `kind`, or it cannot go on.
  static void RunUntilStuck(RecoveryModel& model, int worker);

  // `dead` die, `lost` never arrive, everybody else goes on in the next generation.
  void Regroup(RecoveryModel& model, const std::vector<int>& dead,
               const std::vector<RecoveryModel::Arrival>& lost);

  // What went wrong: an invariant, PlanResume's refusal, or that it hangs; else "".
  std::string Problem(const RecoveryModel& model) const;
  bool IsOver(const RecoveryModel& model) const;
  std::int64_t num_regroups() const { return num_regroups_; }
  // Of the last regroup.
  const ResumeDecision& decision() const { return decision_; }

 private:
  const Plan& PlanFor(const RecoveryModel& model);

  const ModelJob job_;
  const BrokenRules rules_;
  std::map<std::uint32_t, Plan> plans_;  // by who lives
  std::int64_t num_regroups_ = 0;
  ResumeDecision decision_;
  std::string refusal_;  // the first
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_MODEL_MODEL_DRIVER_H_
