#include "recycle/planner/time_indexed_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

// z[action, worker, slot of time] = 1: the action starts there.
class TimeIndexedModel {
 public:
  TimeIndexedModel(const FlatJob& job, const Candidates& candidates, Ticks target)
      : job_(job), candidates_(candidates), unit_(job.stages[0].forward), target_(InUnits(target)) {
    SetWindows();
    for (int slot = 0; slot < job.num_slots(); ++slot) {
      for (const ActionKind kind : KindsOf(job)) AddStarts(Order::Op(slot, kind));
    }
    for (int slot = 0; slot < job.num_slots(); ++slot) AddSlotRows(slot);
    for (const Precedence& row : PrecedencesOf(job)) AddPrecedence(row);
    for (int stage = 0; stage < job.num_stages; ++stage) {
      for (const int k : job.live[Index(stage)]) AddWorkerRows(stage, k);
      if (job.staggered) AddStageWindow(stage);
    }
    for (int micro_batch = 0; micro_batch < job.num_micro_batches; ++micro_batch) {
      const int twin = TwinOf(job, candidates, micro_batch);
      if (twin < 0) continue;
      Milp::Terms terms = StartTerms(Order::Op(twin * job.num_stages, ActionKind::kForward), 1);
      Append(StartTerms(Order::Op(micro_batch * job.num_stages, ActionKind::kForward), -1), terms);
      milp_.AddRow(terms, 0, Milp::kInfinity);
    }
  }

  ModelAnswer Solve(std::chrono::milliseconds limit) {
    ModelAnswer answer;
    if (infeasible_) {
      answer.outcome = Milp::Outcome::kInfeasible;
      return answer;
    }
    const Milp::Solution solution = milp_.Minimize(limit);
    answer.outcome = solution.outcome;
    if (solution.values.empty()) return answer;
    std::map<std::uint32_t, double> starts;
    std::vector<std::int32_t> pipeline(Index(job_.num_slots()), -1);
    for (const auto& [op, choices] : starts_) {
      for (const Choice& choice : choices) {
        if (solution.values[Index(choice.variable)] < 0.5) continue;
        starts[op] = choice.time;
        pipeline[Index(Order::SlotOf(op))] = choice.pipeline;
      }
    }
    answer.order = OrderFromStarts(job_, starts, std::move(pipeline));
    return answer;
  }

 private:
  struct Choice {
    int variable;
    int pipeline;
    int time;
  };

  int InUnits(Ticks ticks) const { return static_cast<int>(ticks / unit_); }
  int StepOf(int stage) const {
    return InUnits(job_.stages[Index(stage)].all_reduce + job_.stages[Index(stage)].optimizer);
  }

  static void Append(const Milp::Terms& more, Milp::Terms& terms) {
    terms.insert(terms.end(), more.begin(), more.end());
  }

  // Per stage: the earliest and latest first start of a plan within the target.
  void SetWindows() {
    earliest_.assign(Index(job_.num_stages), 0);
    latest_.assign(Index(job_.num_stages), 0);
    int way = 0;
    int latest_first = 0;
    for (int stage = 0; stage < job_.num_stages; ++stage) {
      const StageCosts& costs = job_.stages[Index(stage)];
      if (!job_.staggered) {
        way = std::max(way, InUnits(costs.optimizer));
        latest_[Index(stage)] = target_ - InUnits(costs.all_reduce) - 1;
      } else {
        // The last I of this stage, then one I and one W before the stage before may end.
        if (stage > 0) {
          latest_first += target_ - StepOf(stage - 1) - 2 * job_.Quota(stage) - 2 -
                          InUnits(job_.send_backward[Index(stage - 1)]);
        }
        latest_[Index(stage)] = latest_first + target_ - StepOf(stage) - 1;
      }
      earliest_[Index(stage)] = way;
      way += 1 + InUnits(job_.send_forward[Index(stage)]);
    }
  }

  void AddStarts(std::uint32_t op) {
    const int slot = Order::SlotOf(op);
    const int stage = job_.StageAt(slot);
    std::vector<Choice>& choices = starts_[op];
    for (const int k : candidates_[Index(slot)]) {
      for (int time = earliest_[Index(stage)]; time <= latest_[Index(stage)]; ++time) {
        choices.push_back({milp_.AddBinary(), k, time});
      }
    }
    infeasible_ = infeasible_ || choices.empty();
  }

  // Factor times the start time.
  Milp::Terms StartTerms(std::uint32_t op, double factor) const {
    Milp::Terms terms;
    for (const Choice& choice : starts_.at(op)) {
      if (choice.time != 0) terms.emplace_back(choice.variable, factor * choice.time);
    }
    return terms;
  }

  // Every action once, all of a slot's actions on one worker.
  void AddSlotRows(int slot) {
    const std::uint32_t forward = Order::Op(slot, ActionKind::kForward);
    for (const ActionKind kind : KindsOf(job_)) {
      const std::uint32_t op = Order::Op(slot, kind);
      Milp::Terms once;
      for (const Choice& choice : starts_[op]) once.emplace_back(choice.variable, 1);
      milp_.AddRow(once, 1, 1);
      if (op == forward || candidates_[Index(slot)].size() == 1) continue;
      for (const int k : candidates_[Index(slot)]) {
        Milp::Terms same;
        for (const Choice& choice : starts_[op]) {
          if (choice.pipeline == k) same.emplace_back(choice.variable, 1);
        }
        for (const Choice& choice : starts_[forward]) {
          if (choice.pipeline == k) same.emplace_back(choice.variable, -1);
        }
        milp_.AddRow(same, 0, 0);
      }
    }
  }

  // What has started by `time` may not exceed what its input had started by then.
  void AddPrecedence(const Precedence& row) {
    const int lag = 1 + InUnits(row.lag);
    const int stage = job_.StageAt(Order::SlotOf(row.after));
    for (int time = earliest_[Index(stage)]; time <= latest_[Index(stage)]; ++time) {
      Milp::Terms terms;
      for (const Choice& choice : starts_[row.after]) {
        if (choice.time <= time) terms.emplace_back(choice.variable, 1);
      }
      for (const Choice& choice : starts_[row.before]) {
        if (choice.time <= time - lag) terms.emplace_back(choice.variable, -1);
      }
      milp_.AddRow(terms, -Milp::kInfinity, 0);
    }
  }

  // One action at a time, within the capacity.
  void AddWorkerRows(int stage, int pipeline) {
    const StageCosts& costs = job_.stages[Index(stage)];
    const bool limited = std::isfinite(job_.capacity[Index(stage)]) && costs.activation_bytes > 0;
    for (int time = earliest_[Index(stage)]; time <= latest_[Index(stage)]; ++time) {
      Milp::Terms running;
      Milp::Terms held;
      for (int slot = stage; slot < job_.num_slots(); slot += job_.num_stages) {
        for (const ActionKind kind : KindsOf(job_)) {
          const double taken = BytesTaken(costs, kind);
          const int until = kind == ActionKind::kForward ? time : time - 1;
          for (const Choice& choice : starts_[Order::Op(slot, kind)]) {
            if (choice.pipeline != pipeline) continue;
            if (choice.time == time) running.emplace_back(choice.variable, 1);
            if (choice.time <= until && taken != 0) held.emplace_back(choice.variable, taken);
          }
        }
      }
      if (running.size() > 1) milp_.AddRow(running, -Milp::kInfinity, 1);
      if (limited) milp_.AddRow(held, -Milp::kInfinity, job_.capacity[Index(stage)]);
    }
  }

  // All starts of the stage within [S, S + target - step - 1].
  void AddStageWindow(int stage) {
    const int first = milp_.AddContinuous(0, latest_[Index(stage)], 0);
    const int span = target_ - StepOf(stage) - 1;
    for (int slot = stage; slot < job_.num_slots(); slot += job_.num_stages) {
      for (const ActionKind kind : KindsOf(job_)) {
        Milp::Terms terms = StartTerms(Order::Op(slot, kind), 1);
        terms.emplace_back(first, -1);
        milp_.AddRow(terms, 0, span);
      }
    }
  }

  const FlatJob& job_;
  const Candidates& candidates_;
  const Ticks unit_;
  const int target_;
  Milp milp_;
  std::vector<int> earliest_;  // by stage
  std::vector<int> latest_;
  std::map<std::uint32_t, std::vector<Choice>> starts_;
  bool infeasible_ = false;
};

}  // namespace

bool IsUnitTime(const FlatJob& job) {
  if (!job.decoupled || job.has_stragglers) return false;
  const Ticks unit = job.stages.front().forward;
  if (unit == 0) return false;
  for (std::size_t i = 0; i < job.stages.size(); ++i) {
    const StageCosts& costs = job.stages[i];
    if (costs.forward != unit || costs.backward_input != unit || costs.backward_weight != unit) {
      return false;
    }
    for (const Ticks ticks :
         {job.send_forward[i], job.send_backward[i], costs.all_reduce, costs.optimizer}) {
      if (ticks % unit != 0) return false;
    }
  }
  return true;
}

ModelAnswer SolveTimeIndexed(const FlatJob& job, const Candidates& candidates, Ticks target,
                             std::chrono::milliseconds limit) {
  RC_CHECK(IsUnitTime(job));
  return TimeIndexedModel(job, candidates, target).Solve(limit);
}

}  // namespace recycle
