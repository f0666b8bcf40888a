#include "recycle/testing/model/model_driver.h"

#include <algorithm>

#include "recycle/plan/validate.h"
#include "recycle/planner/remainder.h"

namespace recycle {

RecoveryModel ModelDriver::Start() {
  RecoveryModel model(job_, rules_);
  Regroup(model, {}, {});
  return model;
}

void ModelDriver::Act(RecoveryModel& model, int worker) {
  model.Act(worker);
  for (const RecoveryModel::Message& message : model.TakeSent()) model.Deliver(message);
}

std::vector<int> ModelDriver::Able(const RecoveryModel& model) {
  std::vector<int> able;
  for (int w = 0; w < model.num_workers(); ++w) {
    if (model.CanAct(w)) able.push_back(w);
  }
  return able;
}

void ModelDriver::RunRandomly(RecoveryModel& model, Prng& prng, int acts) {
  for (int i = 0; i < acts; ++i) {
    const std::vector<int> able = Able(model);
    if (able.empty()) return;
    Act(model, able[prng.Below(able.size())]);
  }
}

void ModelDriver::RunToEnd(RecoveryModel& model, Prng& prng) {
  constexpr int kMoreThanAnyJobHas = 100'000;
  RunRandomly(model, prng, kMoreThanAnyJobHas);
}

void ModelDriver::RunUntilStuck(RecoveryModel& model, int worker) {
  while (model.CanAct(worker)) Act(model, worker);
}

const Plan& ModelDriver::PlanFor(const RecoveryModel& model) {
  std::uint32_t living = 0;
  std::vector<WorkerId> failed;
  for (int w = 0; w < model.num_workers(); ++w) {
    if (model.IsAlive(w)) {
      living |= std::uint32_t{1} << w;
    } else {
      failed.push_back(job_.Worker(w));
    }
  }
  const auto known = plans_.find(living);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(living, RandomWholePlan(job_, failed, HashKeys({job_.seed, living})))
      .first->second;
}

void ModelDriver::Regroup(RecoveryModel& model, const std::vector<int>& dead,
                          const std::vector<RecoveryModel::Arrival>& lost) {
  ++num_regroups_;
  for (const RecoveryModel::Arrival& arrival : lost) model.Lose(arrival);
  for (const int worker : dead) model.Kill(worker);
  Generation generation(0);
  for (int w = 0; w < model.num_workers(); ++w) {
    generation = std::max(generation, model.promised(w));
  }
  generation = Generation(generation.value() + 1);
  std::map<WorkerId, Ledger> ledgers;
  for (int w = 0; w < model.num_workers(); ++w) {
    if (!model.IsAlive(w)) continue;
    model.Prepare(w, generation);
    ledgers[job_.Worker(w)] = model.MakeLedger(w);
  }
  if (rules_.ledger_without_promise) {
    for (int w = 0; w < model.num_workers(); ++w) RunUntilStuck(model, w);
  }
  const Plan& plan = PlanFor(model);
  StatusOr<ResumeDecision> decision = PlanResume({.plan = plan,
                                                  .ledgers = ledgers,
                                                  .iterations = job_.iterations,
                                                  .tied = job_.tied && !rules_.tied_apart},
                                                 OrderRemainder);
  if (!decision.ok()) {
    if (refusal_.empty()) refusal_ = std::string(decision.status().message());
    return;
  }
  decision_ = *std::move(decision);
  recycle::Resume resume;
  resume.generation = generation;
  resume.open = decision_.open;
  resume.next_iteration = decision_.next_iteration;
  resume.quanta = decision_.quanta;
  resume.plan = std::make_shared<const Plan>(plan);
  for (const OpenIteration& open : resume.open) {
    const Status legal = Validate(*open.rest);
    if (!legal.ok() && refusal_.empty()) refusal_ = std::string(legal.message());
  }
  for (int w = 0; w < model.num_workers(); ++w) model.Resume(w, resume);
  for (const RecoveryModel::Message& message : model.TakeSent()) model.Deliver(message);
}

bool ModelDriver::IsOver(const RecoveryModel& model) const {
  for (int w = 0; w < model.num_workers(); ++w) {
    if (model.IsAlive(w) && !model.HasFinished(w)) return false;
  }
  return true;
}

std::string ModelDriver::Problem(const RecoveryModel& model) const {
  if (!model.violation().empty()) return model.violation();
  if (!refusal_.empty()) return refusal_;
  if (model.HasOutgrown()) return "";  // it waits for the next generation
  if (Able(model).empty() && !IsOver(model)) return "it hangs:\n" + model.Describe();
  return "";
}

}  // namespace recycle
