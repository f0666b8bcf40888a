#include "recycle/plan/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "recycle/plan/compiled_plan.h"

namespace recycle {
namespace {

constexpr int kPasses = 8;
constexpr int kMaxPasses = 1000;
// A pass that grows every stage's end alike repeats for ever. From here on the eight-pass figure
// does not depend on what came before it: it is the end of pass 8 minus that of pass 4.
constexpr int kSettledPass = kPasses / 2 + 1;

// Smallest and largest growth of a stage's step end over one iteration.
struct Growth {
  Ticks low = 0;
  Ticks high = 0;
};

Growth GrowthOf(const std::vector<Ticks>& before, const std::vector<Ticks>& after) {
  Growth growth{std::numeric_limits<Ticks>::max(), std::numeric_limits<Ticks>::min()};
  for (std::size_t s = 0; s < before.size(); ++s) {
    growth.low = std::min(growth.low, after[s] - before[s]);
    growth.high = std::max(growth.high, after[s] - before[s]);
  }
  return growth;
}

Ticks LastOf(const std::vector<Ticks>& ends) { return *std::max_element(ends.begin(), ends.end()); }

// (last of pass 8 - last of pass 4) / 4, to the nearest tick.
Ticks EightPassPeriod(Ticks fourth, Ticks eighth) {
  constexpr Ticks kSpan = kPasses / 2;
  return (eighth - fourth + kSpan / 2) / kSpan;
}

// The figures of a plan whose workers have one stage each: an iteration is a function of the
// stages' release times alone, and its growth brackets the period.
PlanFigures BracketFigures(CompiledPlan& plan, Ticks makespan, std::vector<Ticks> ends) {
  PlanFigures figures{makespan, 0, false};
  std::vector<Ticks> before(ends.size(), 0);
  Growth bracket = GrowthOf(before, ends);
  Ticks fourth = 0;
  for (int pass = 1;; ++pass) {
    if (pass == kPasses / 2) fourth = LastOf(ends);
    const bool closed = bracket.low == bracket.high;
    if (closed && pass <= kSettledPass) {
      figures.period = bracket.high;
      figures.certified = true;
      return figures;
    }
    if (closed && pass == kPasses) {
      figures.period = EightPassPeriod(fourth, LastOf(ends));
      figures.certified = figures.period == bracket.high;
      return figures;
    }
    if (pass > kPasses && (closed || pass == kMaxPasses)) {
      figures.period = bracket.high;
      figures.certified = closed;
      return figures;
    }
    before = ends;
    ends = plan.RunPass(before);
    const Growth growth = GrowthOf(before, ends);
    bracket.low = std::max(bracket.low, growth.low);
    bracket.high = std::min(bracket.high, growth.high);
  }
}

// The figures of a plan with several stages a worker: workers carry work over from one iteration to
// the next, so only the unrolled run counts.
PlanFigures UnrolledFigures(CompiledPlan& plan, Ticks makespan, std::vector<Ticks> ends) {
  Ticks fourth = 0;
  for (int pass = 2; pass <= kPasses; ++pass) {
    ends = plan.RunPass(ends);
    if (pass == kPasses / 2) fourth = LastOf(ends);
  }
  return PlanFigures{makespan, EightPassPeriod(fourth, LastOf(ends)), false};
}

PlanFigures FiguresAfterFirstPass(const Plan& plan, CompiledPlan& compiled,
                                  const std::vector<Ticks>& ends) {
  const Ticks makespan = LastOf(ends);
  if (!plan.initial.empty()) return PlanFigures{makespan, makespan, false};
  if (plan.parallel.virtual_stages > 1) return UnrolledFigures(compiled, makespan, ends);
  return BracketFigures(compiled, makespan, ends);
}

std::vector<Ticks> FromRest(const Plan& plan) {
  return std::vector<Ticks>(static_cast<std::size_t>(plan.parallel.num_stages()), 0);
}

}  // namespace

StatusOr<Timeline> ComputeTimeline(const Plan& plan) {
  CompiledPlan compiled;
  RC_RETURN_IF_ERROR(compiled.Compile(plan));
  Timeline timeline;
  timeline.step_end = compiled.RunPass(FromRest(plan));
  timeline.workers = compiled.TimedActions(plan);
  const PlanFigures figures = FiguresAfterFirstPass(plan, compiled, timeline.step_end);
  timeline.makespan = figures.makespan;
  timeline.period = figures.period;
  timeline.certified = figures.certified;
  return timeline;
}

StatusOr<PlanFigures> ComputeFigures(const Plan& plan) {
  // Planners time thousands of plans; the memory is kept for the next one.
  thread_local CompiledPlan compiled;
  RC_RETURN_IF_ERROR(compiled.Compile(plan));
  const std::vector<Ticks> ends = compiled.RunPass(FromRest(plan));
  return FiguresAfterFirstPass(plan, compiled, ends);
}

}  // namespace recycle
