#include "recycle/coordinator/plan_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/coordinator/open_work.h"

namespace recycle {
namespace {

struct VersionRange {
  std::int32_t lowest = 0;
  std::int32_t highest = 0;
};

StatusOr<VersionRange> FindVersions(const ResumeQuestion& question) {
  const auto [least, most] = std::minmax_element(
      question.ledgers.begin(), question.ledgers.end(),
      [](const auto& a, const auto& b) { return a.second.version < b.second.version; });
  const VersionRange range{least->second.version, most->second.version};
  if (range.lowest < 0 || range.highest > question.iterations) {
    return absl::FailedPreconditionError(fmt::format(
        "worker {} says it has made {} steps; a job of {} iterations has 0 to {}",
        ToString(range.lowest < 0 ? least->first : most->first),
        range.lowest < 0 ? range.lowest : range.highest, question.iterations, question.iterations));
  }
  // Staggered: whoever holds a gradient may be late with its step, while others make the next one.
  const int apart = question.plan.options.staggered ? 2 : 1;
  if (range.highest > range.lowest + apart) {
    return absl::FailedPreconditionError(fmt::format(
        "worker {} has made {} steps and worker {} {}; they may differ by {} at most",
        ToString(least->first), range.lowest, ToString(most->first), range.highest, apart));
  }
  return range;
}

// The pass needs everybody: as long as somebody lacks the step or its own part, nobody is through.
bool MustRepeatValidation(const ResumeQuestion& question, const VersionRange& versions) {
  return std::any_of(question.ledgers.begin(), question.ledgers.end(), [&](const auto& entry) {
    return entry.second.version < versions.highest || entry.second.owes_validation;
  });
}

}  // namespace

StatusOr<ResumeDecision> PlanResume(const ResumeQuestion& question,
                                    const OrderRemainderFunction& order) {
  RC_CHECK(!question.ledgers.empty());
  RC_ASSIGN_OR_RETURN(const VersionRange versions, FindVersions(question));
  ResumeDecision decision;
  decision.repeat_validation = MustRepeatValidation(question, versions);
  decision.next_iteration = versions.lowest;
  const std::int32_t last = std::min(versions.highest, question.iterations - 1);
  for (std::int32_t t = versions.lowest; t <= last; ++t) {
    OpenWork work(question, t);
    RC_RETURN_IF_ERROR(work.Settle());
    if (t == versions.highest && !work.begun()) break;
    RC_ASSIGN_OR_RETURN(OpenIteration open, work.Describe(order));
    decision.open.push_back(std::move(open));
    decision.regenerated_actions += work.regenerated_actions();
    decision.next_iteration = t + 1;
  }
  return decision;
}

}  // namespace recycle
