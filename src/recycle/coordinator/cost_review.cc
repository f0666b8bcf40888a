#include "recycle/coordinator/cost_review.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/plan/timeline.h"

namespace recycle {
namespace {

constexpr Ticks MeasuredCosts::*kMeasuredKinds[] = {
    &MeasuredCosts::forward, &MeasuredCosts::backward_input, &MeasuredCosts::backward_weight};
constexpr Ticks StageCosts::*kPlannedKinds[] = {&StageCosts::forward, &StageCosts::backward_input,
                                                &StageCosts::backward_weight};

Ticks LowerMedian(std::vector<Ticks> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Largest relative difference of an F, I or W; of one that is planned to take no time there is
// none.
double Deviation(const CostProfile& planned, const CostProfile& measured) {
  double most = 0;
  for (std::size_t stage = 0; stage < planned.stages.size(); ++stage) {
    for (const auto kind : kPlannedKinds) {
      const auto wanted = static_cast<double>(planned.stages[stage].*kind);
      const auto found = static_cast<double>(measured.stages[stage].*kind);
      if (wanted > 0) most = std::max(most, std::abs(found / wanted - 1));
    }
  }
  return most;
}

// Of `plan`, were its costs `costs`.
StatusOr<Ticks> PeriodWith(Plan plan, const CostProfile& costs) {
  plan.costs = costs;
  RC_ASSIGN_OR_RETURN(const PlanFigures figures, ComputeFigures(plan));
  return figures.period;
}

}  // namespace

CostProfile WithMeasured(CostProfile costs, const std::vector<MeasuredCosts>& measured) {
  RC_CHECK(costs.stages.size() == measured.size())
      << costs.stages.size() << " stages, " << measured.size() << " measured";
  double planned_forward = 0;
  double measured_forward = 0;
  for (std::size_t stage = 0; stage < measured.size(); ++stage) {
    planned_forward += static_cast<double>(costs.stages[stage].forward);
    measured_forward += static_cast<double>(measured[stage].forward);
  }
  if (planned_forward <= 0 || measured_forward <= 0) return costs;
  for (std::size_t stage = 0; stage < measured.size(); ++stage) {
    for (std::size_t kind = 0; kind < std::size(kPlannedKinds); ++kind) {
      const auto took = static_cast<double>(measured[stage].*kMeasuredKinds[kind]);
      costs.stages[stage].*kPlannedKinds[kind] =
          std::llround(took * planned_forward / measured_forward);
    }
  }
  return costs;
}

void CostReview::TakeOver(std::vector<MeasuredCosts> measured) {
  judged_ = !measured.empty();
  measured_ = std::move(measured);
}

void CostReview::Receive(WorkerId worker, const MeasuredCosts& costs) {
  if (!judged_) told_[worker] = costs;
}

bool CostReview::due() const {
  if (judged_ || told_.empty()) return false;
  std::map<StageId, int> missing;  // less those that are known
  for (const WorkerId worker : roster_.Live()) {
    missing[worker.stage] += told_.contains(worker) ? -1 : 1;
  }
  return std::all_of(missing.begin(), missing.end(),
                     [](const auto& stage) { return stage.second < 0; });
}

std::vector<MeasuredCosts> CostReview::Medians() const {
  std::map<StageId, std::vector<MeasuredCosts>> told;
  for (const auto& [worker, costs] : told_) told[worker.stage].push_back(costs);
  std::vector<MeasuredCosts> medians;
  for (const auto& [stage, costs] : told) {
    MeasuredCosts& median = medians.emplace_back();
    for (const auto kind : kMeasuredKinds) {
      std::vector<Ticks> values;
      for (const MeasuredCosts& of_worker : costs) values.push_back(of_worker.*kind);
      median.*kind = LowerMedian(std::move(values));
    }
  }
  return medians;
}

CostReview::Outcome CostReview::Judge(const Plan& running, PlanQuestion question,
                                      const MakePlanFunction& make_plan,
                                      std::int32_t iterations_left) {
  judged_ = true;
  question.measured = Medians();
  const CostProfile measured = WithMeasured(running.costs, question.measured);
  Outcome outcome{.news = {.planned = running.costs,
                           .measured = measured,
                           .deviation = Deviation(running.costs, measured)},
                  .plan = nullptr};
  AnnounceCosts& news = outcome.news;
  if (news.deviation <= kTolerance) {
    news.reason = "they are right to a tenth";
    return outcome;
  }
  StatusOr<Plan> plan = make_plan(question);
  if (!plan.ok()) {
    news.reason =
        fmt::format("there is no plan for them: {}", std::string(plan.status().message()));
    return outcome;
  }
  measured_ = question.measured;
  const StatusOr<Ticks> before = PeriodWith(running, plan->costs);
  const StatusOr<Ticks> after = PeriodWith(*plan, plan->costs);
  RC_CHECK(before.ok() && after.ok()) << before.status() << " " << after.status();
  news.period_before = *before;
  news.period_after = *after;
  if (*after >= *before) {
    news.reason = "the running plan is as good";
    return outcome;
  }
  if (static_cast<double>(*before - *after) * iterations_left < static_cast<double>(*after)) {
    news.reason = fmt::format("a faster plan saves less than an iteration in the {} that are left",
                              iterations_left);
    return outcome;
  }
  news.replanned = true;
  news.reason = "there is a faster plan for them";
  outcome.plan = std::make_shared<const Plan>(*std::move(plan));
  return outcome;
}

}  // namespace recycle
