#include "recycle/coordinator/plan_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
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

bool Knows(const Ledger& ledger, std::int32_t iteration) {
  return std::any_of(ledger.verdicts.begin(), ledger.verdicts.end(),
                     [iteration](const Verdict& known) { return known.iteration == iteration; });
}

// Every verdict once; it corrects if anybody knows it as one that does.
std::vector<Verdict> CollectVerdicts(const std::map<WorkerId, Ledger>& ledgers) {
  std::map<std::int32_t, Verdict> known;
  for (const auto& [worker, ledger] : ledgers) {
    for (const Verdict& verdict : ledger.verdicts) {
      Verdict& entry = known.try_emplace(verdict.iteration, verdict).first->second;
      entry.corrects = entry.corrects || verdict.corrects;
    }
  }
  std::vector<Verdict> verdicts;
  verdicts.reserve(known.size());
  for (const auto& [iteration, verdict] : known) verdicts.push_back(verdict);
  return verdicts;
}

// What is left of the ledgers when everyone has applied the verdicts.
std::map<WorkerId, Ledger> Correct(const std::map<WorkerId, Ledger>& ledgers,
                                   ResumeDecision& decision) {
  std::map<WorkerId, Ledger> corrected = ledgers;
  for (const Verdict& verdict : decision.verdicts) {
    if (!verdict.corrects) continue;
    std::set<StageId> stages;
    for (auto& [worker, ledger] : corrected) {
      const bool rolls_back = ledger.version == verdict.iteration + 1 && !ledger.validated;
      const bool learns = ledger.version == verdict.iteration && !Knows(ledger, verdict.iteration);
      if (rolls_back) stages.insert(worker.stage);
      if (!rolls_back && !learns) continue;
      std::erase_if(ledger.iterations, [&verdict](const IterationLedger& entry) {
        return entry.iteration > verdict.iteration;
      });
    }
    for (const StageId stage : stages) decision.rollbacks.push_back({stage, verdict});
  }
  return corrected;
}

// The coarsest that anybody of the unit knows or wants, for each of its stages.
std::vector<Quantum> CollectQuanta(const ResumeQuestion& question) {
  const StageId first(0);
  const StageId last(question.plan.parallel.num_stages() - 1);
  std::map<std::pair<StageId, std::int32_t>, std::int32_t> coarsest;
  const auto note = [&](StageId stage, const Quantum& quantum) {
    const auto [entry, is_new] = coarsest.try_emplace({stage, quantum.iteration}, quantum.exponent);
    if (!is_new) entry->second = std::max(entry->second, quantum.exponent);
  };
  for (const auto& [worker, ledger] : question.ledgers) {
    std::vector<Quantum> quanta = ledger.quanta;
    if (ledger.outgrown) quanta.push_back(*ledger.outgrown);
    for (const Quantum& quantum : quanta) {
      note(worker.stage, quantum);
      if (question.tied && worker.stage == first) note(last, quantum);
      if (question.tied && worker.stage == last) note(first, quantum);
    }
  }
  std::vector<Quantum> quanta;
  quanta.reserve(coarsest.size());
  for (const auto& [place, exponent] : coarsest) {
    quanta.push_back({.stage = place.first, .iteration = place.second, .exponent = exponent});
  }
  return quanta;
}

bool HasLearnt(const Ledger& ledger, const Quantum& quantum) {
  return std::any_of(ledger.quanta.begin(), ledger.quanta.end(), [&](const Quantum& known) {
    return known.iteration == quantum.iteration && known.exponent >= quantum.exponent;
  });
}

// What is left of the ledgers when everyone has learnt the quanta.
void Learn(ResumeDecision& decision, std::map<WorkerId, Ledger>& ledgers) {
  for (const Quantum& quantum : decision.quanta) {
    bool wanted = false;
    for (auto& [worker, ledger] : ledgers) {
      if (worker.stage != quantum.stage || ledger.version != quantum.iteration) continue;
      wanted = wanted || ledger.outgrown == quantum;
      if (HasLearnt(ledger, quantum)) continue;
      std::erase_if(ledger.iterations, [&quantum](const IterationLedger& entry) {
        return entry.iteration >= quantum.iteration;
      });
    }
    if (wanted) decision.redone.push_back(quantum);
  }
}

}  // namespace

StatusOr<ResumeDecision> PlanResume(const ResumeQuestion& asked,
                                    const OrderRemainderFunction& order) {
  RC_CHECK(!asked.ledgers.empty());
  ResumeDecision decision;
  decision.verdicts = CollectVerdicts(asked.ledgers);
  decision.quanta = CollectQuanta(asked);
  std::map<WorkerId, Ledger> ledgers = Correct(asked.ledgers, decision);
  Learn(decision, ledgers);
  const ResumeQuestion question{
      .plan = asked.plan, .ledgers = ledgers, .iterations = asked.iterations, .tied = asked.tied};
  RC_ASSIGN_OR_RETURN(const VersionRange versions, FindVersions(question));
  decision.repeat_validation = MustRepeatValidation(question, versions);
  decision.next_iteration = versions.lowest;
  const std::int32_t last = std::min(versions.highest, question.iterations - 1);
  for (std::int32_t t = versions.lowest; t <= last; ++t) {
    OpenWork work(question, t);
    RC_RETURN_IF_ERROR(work.Settle());
    decision.stranded = work.Stranded();
    if (!decision.stranded.empty()) return decision;
    if (t == versions.highest && !work.begun()) break;
    RC_ASSIGN_OR_RETURN(OpenIteration open, work.Describe(order));
    decision.open.push_back(std::move(open));
    decision.regenerated_actions += work.regenerated_actions();
    decision.next_iteration = t + 1;
  }
  return decision;
}

}  // namespace recycle
