#include "recycle/planner/disjunctive_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "recycle/base/index.h"

namespace recycle {
namespace {

// Start times, and an order binary for every pair of actions that may share a worker.
class DisjunctiveModel {
 public:
  DisjunctiveModel(const FlatJob& job, const Candidates& candidates, Ticks target, Ticks bound)
      : job_(job), candidates_(candidates), scale_(std::max<Ticks>(1, target / 1000)) {
    period_ = milp_.AddContinuous(Scaled(bound), Scaled(target), 1);
    horizon_ = Scaled(target) * 2;
    for (const Ticks send : job.send_forward) horizon_ += Scaled(send);
    for (int slot = 0; slot < job.num_slots(); ++slot) AddSlot(slot);
    for (const Precedence& row : PrecedencesOf(job)) {
      Milp::Terms terms = {{starts_.at(row.after), 1}, {starts_.at(row.before), -1}};
      const double fixed = AppendDuration(row.before, -1, terms);
      milp_.AddRow(terms, Scaled(row.lag) - fixed, Milp::kInfinity);
    }
    for (int stage = 0; stage < job.num_stages; ++stage) AddStage(stage);
  }

  ModelAnswer Solve(std::chrono::milliseconds limit) {
    const Milp::Solution solution = milp_.Minimize(limit);
    ModelAnswer answer;
    answer.outcome = solution.outcome;
    answer.bound = static_cast<Ticks>(std::floor(solution.bound * static_cast<double>(scale_) - 1));
    if (solution.values.empty()) return answer;
    std::map<std::uint32_t, double> starts;
    for (const auto& [op, variable] : starts_) starts[op] = solution.values[Index(variable)];
    std::vector<std::int32_t> pipeline;
    for (int slot = 0; slot < job_.num_slots(); ++slot) {
      int chosen = candidates_[Index(slot)].front();
      for (const int k : candidates_[Index(slot)]) {
        const auto choice = assigned_.find({slot, k});
        if (choice != assigned_.end() && solution.values[Index(choice->second)] > 0.5) chosen = k;
      }
      pipeline.push_back(chosen);
    }
    answer.order = OrderFromStarts(job_, starts, std::move(pipeline));
    return answer;
  }

 private:
  double Scaled(Ticks ticks) const {
    return static_cast<double>(ticks) / static_cast<double>(scale_);
  }

  double DurationOf(std::uint32_t op, int pipeline) const {
    const int stage = job_.StageAt(Order::SlotOf(op));
    return Scaled(job_.durations[Index(stage * job_.num_pipelines + pipeline)]
                                [static_cast<std::size_t>(Order::KindOf(op))]);
  }

  void AddSlot(int slot) {
    for (const ActionKind kind : KindsOf(job_)) {
      starts_[Order::Op(slot, kind)] = milp_.AddContinuous(0, horizon_, 0);
    }
    if (candidates_[Index(slot)].size() == 1) return;
    Milp::Terms once;
    for (const int k : candidates_[Index(slot)]) {
      assigned_[{slot, k}] = milp_.AddBinary();
      once.emplace_back(assigned_[{slot, k}], 1);
    }
    milp_.AddRow(once, 1, 1);
  }

  // Appends factor * [slot is on pipeline's worker] and returns the part that is fixed; a slot that
  // may not run there gives nothing.
  double AppendAssigned(int slot, int pipeline, double factor, Milp::Terms& terms) const {
    const auto choice = assigned_.find({slot, pipeline});
    if (choice != assigned_.end()) {
      terms.emplace_back(choice->second, factor);
      return 0;
    }
    return candidates_[Index(slot)].front() == pipeline ? factor : 0;
  }

  double AppendDuration(std::uint32_t op, double factor, Milp::Terms& terms) const {
    double fixed = 0;
    for (const int k : candidates_[Index(Order::SlotOf(op))]) {
      fixed += AppendAssigned(Order::SlotOf(op), k, factor * DurationOf(op, k), terms);
    }
    return fixed;
  }

  void AddStage(int stage) {
    const StageCosts& costs = job_.stages[Index(stage)];
    for (int one = stage; one < job_.num_slots(); one += job_.num_stages) {
      for (int two = one + job_.num_stages; two < job_.num_slots(); two += job_.num_stages) {
        AddDisjunctions(one, two);
      }
    }
    const bool limited = std::isfinite(job_.capacity[Index(stage)]) && costs.activation_bytes > 0;
    for (int slot = stage; slot < job_.num_slots() && limited; slot += job_.num_stages) {
      AddMemoryRow(slot, stage);
    }
    if (job_.staggered) {
      AddSpan(stage);
    } else {
      AddDeadline(stage);
    }
  }

  // For every pair of actions of two micro-batches: one before the other wherever both run there.
  void AddDisjunctions(int one, int two) {
    std::vector<int> shared;
    std::set_intersection(candidates_[Index(one)].begin(), candidates_[Index(one)].end(),
                          candidates_[Index(two)].begin(), candidates_[Index(two)].end(),
                          std::back_inserter(shared));
    if (shared.empty()) return;
    for (const ActionKind kind_one : KindsOf(job_)) {
      for (const ActionKind kind_two : KindsOf(job_)) {
        const std::uint32_t a = Order::Op(one, kind_one);
        const std::uint32_t b = Order::Op(two, kind_two);
        const int first = milp_.AddBinary();  // 1: a before b
        before_[{a, b}] = first;
        for (const int k : shared) {
          AddOneBefore(a, b, k, first, -horizon_, horizon_);
          AddOneBefore(b, a, k, first, horizon_, 0);
        }
      }
    }
  }

  // start(b) >= start(a) + duration(a), unless the binary or an assignment says otherwise:
  // `factor` * first + `slack` is what the binary takes off.
  void AddOneBefore(std::uint32_t a, std::uint32_t b, int pipeline, int first, double factor,
                    double slack) {
    Milp::Terms terms = {{starts_.at(b), 1}, {starts_.at(a), -1}, {first, factor}};
    double fixed = AppendAssigned(Order::SlotOf(a), pipeline, -horizon_, terms);
    fixed += AppendAssigned(Order::SlotOf(b), pipeline, -horizon_, terms);
    milp_.AddRow(terms, DurationOf(a, pipeline) - slack - 2 * horizon_ - fixed, Milp::kInfinity);
  }

  // A variable in [0, 1]: both slots are on one worker.
  int SameWorker(int one, int two) {
    const auto known = same_.find({std::min(one, two), std::max(one, two)});
    if (known != same_.end()) return known->second;
    const int same = milp_.AddContinuous(0, 1, 0);
    Milp::Terms sum = {{same, 1}};
    for (const int k : candidates_[Index(one)]) {
      const auto& others = candidates_[Index(two)];
      if (std::find(others.begin(), others.end(), k) == others.end()) continue;
      const int both = milp_.AddContinuous(0, 1, 0);
      sum.emplace_back(both, -1);
      for (const int slot : {one, two}) {
        Milp::Terms at_most = {{both, -1}};
        const double fixed = AppendAssigned(slot, k, 1, at_most);
        milp_.AddRow(at_most, -fixed, Milp::kInfinity);
      }
      Milp::Terms at_least = {{both, 1}};
      double fixed = AppendAssigned(one, k, -1, at_least);
      fixed += AppendAssigned(two, k, -1, at_least);
      milp_.AddRow(at_least, -1 - fixed, Milp::kInfinity);
    }
    milp_.AddRow(sum, 0, 0);
    same_[{std::min(one, two), std::max(one, two)}] = same;
    return same;
  }

  // Terms of [x before y] and its fixed part.
  double AppendBefore(std::uint32_t x, std::uint32_t y, double factor, Milp::Terms& terms) const {
    const auto direct = before_.find({x, y});
    if (direct != before_.end()) {
      terms.emplace_back(direct->second, factor);
      return 0;
    }
    terms.emplace_back(before_.at({y, x}), -factor);
    return factor;
  }

  // What the slot's worker holds when the slot's F starts.
  void AddMemoryRow(int slot, int stage) {
    const StageCosts& costs = job_.stages[Index(stage)];
    const std::uint32_t forward = Order::Op(slot, ActionKind::kForward);
    Milp::Terms held;
    for (int other = stage; other < job_.num_slots(); other += job_.num_stages) {
      if (other == slot || !MayMeet(slot, other)) continue;
      const int same = SameWorker(slot, other);
      for (const ActionKind kind : KindsOf(job_)) {
        const bool takes = kind == ActionKind::kForward;
        const double bytes = BytesTaken(costs, kind);
        const int counts = milp_.AddContinuous(0, 1, 0);  // same worker and before
        held.emplace_back(counts, bytes);
        Milp::Terms terms = {{counts, 1}};
        const double fixed = AppendBefore(Order::Op(other, kind), forward, -1, terms);
        if (takes) {
          terms.emplace_back(same, -1);
          milp_.AddRow(terms, -1 - fixed, Milp::kInfinity);
        } else {
          milp_.AddRow(terms, -Milp::kInfinity, -fixed);
          milp_.AddRow({{counts, 1}, {same, -1}}, -Milp::kInfinity, 0);
        }
      }
    }
    milp_.AddRow(held, -Milp::kInfinity, job_.capacity[Index(stage)] - costs.activation_bytes);
  }

  bool MayMeet(int one, int two) const {
    const auto& others = candidates_[Index(two)];
    return std::any_of(candidates_[Index(one)].begin(), candidates_[Index(one)].end(), [&](int k) {
      return std::find(others.begin(), others.end(), k) != others.end();
    });
  }

  // Staggered: period >= last end - first start + step.
  void AddSpan(int stage) {
    const StageCosts& costs = job_.stages[Index(stage)];
    const int first = milp_.AddContinuous(0, horizon_, 0);
    for (int slot = stage; slot < job_.num_slots(); slot += job_.num_stages) {
      milp_.AddRow({{starts_.at(Order::Op(slot, ActionKind::kForward)), 1}, {first, -1}}, 0,
                   Milp::kInfinity);
      const std::uint32_t last = Order::Op(slot, KindsOf(job_).back());
      Milp::Terms terms = {{period_, 1}, {first, 1}, {starts_.at(last), -1}};
      const double fixed = AppendDuration(last, -1, terms);
      milp_.AddRow(terms, Scaled(costs.all_reduce + costs.optimizer) - fixed, Milp::kInfinity);
    }
  }

  // Synchronous: from the last all-reduce of one iteration to that of the next.
  void AddDeadline(int stage) {
    const StageCosts& costs = job_.stages[Index(stage)];
    for (int slot = stage; slot < job_.num_slots(); slot += job_.num_stages) {
      milp_.AddRow({{starts_.at(Order::Op(slot, ActionKind::kForward)), 1}},
                   Scaled(costs.optimizer), Milp::kInfinity);
      const std::uint32_t last = Order::Op(slot, KindsOf(job_).back());
      Milp::Terms terms = {{period_, 1}, {starts_.at(last), -1}};
      const double fixed = AppendDuration(last, -1, terms);
      milp_.AddRow(terms, Scaled(costs.all_reduce) - fixed, Milp::kInfinity);
    }
  }

  const FlatJob& job_;
  const Candidates& candidates_;
  const Ticks scale_;
  Milp milp_;
  int period_ = 0;
  double horizon_ = 0;
  std::map<std::uint32_t, int> starts_;
  std::map<std::pair<int, int>, int> assigned_;  // {slot, pipeline}, where there is a choice
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> before_;
  std::map<std::pair<int, int>, int> same_;
};

}  // namespace

ModelAnswer SolveDisjunctive(const FlatJob& job, const Candidates& candidates, Ticks target,
                             Ticks bound, std::chrono::milliseconds limit) {
  return DisjunctiveModel(job, candidates, target, bound).Solve(limit);
}

}  // namespace recycle
