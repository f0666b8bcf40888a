#include "recycle/coordinator/role_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "recycle/base/index.h"

namespace recycle {
namespace {

// Failure timeouts: so long may a new process for a place be on its way.
constexpr int kTimeoutsOnTheWay = 5;
// What a copy without a limit manages, over one link beside the training.
constexpr double kCopyBytesPerSecond = 100e6;

double SecondsOf(Duration duration) { return ToMilliseconds(duration) / 1000; }

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

double Share(Ticks part, Ticks whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

RoleChangeVerdict JudgeRoleChange(const RoleChangeFigures& figures) {
  const double saved = 1 - Share(figures.period_after, figures.period_now);
  const double lost = 1 - Share(figures.period_now, figures.period_meanwhile);
  const double copying_s = SecondsOf(figures.copying);
  const double horizon_s =
      std::max(0.0, std::min(SecondsOf(figures.vacant), SecondsOf(figures.left) - copying_s));
  const double gain_s = horizon_s * saved;
  const double cost_s = copying_s * lost + 2 * SecondsOf(figures.regroup);
  return {.gain = FromSeconds(gain_s),
          .cost = FromSeconds(cost_s),
          .pays = gain_s > cost_s,
          .reason = fmt::format(
              "iterations are planned to take {:.0f}% of the time then, a gain of {:.2f} s in the "
              "next {:.2f} s, and {:.0f}% during the copy of {:.2f} s, a cost of {:.2f} s with two "
              "generations",
              100 * (1 - saved), gain_s, horizon_s, 100 / (1 - lost), copying_s, cost_s)};
}

void RoleChanges::OnResumed(TimePoint now, Duration regroup, std::int32_t iterations_done) {
  resumed_ = now;
  regroup_ = regroup;
  resumed_at_ = iterations_done;
  candidate_.reset();
  has_planned_ = false;
  for (const WorkerId place : roster_.Lost()) vacant_since_.try_emplace(place, now);
  const auto is_taken = [this](WorkerId place) { return !roster_.IsLost(place); };
  std::erase_if(vacant_since_, [&](const auto& entry) { return is_taken(entry.first); });
  std::erase_if(tried_, is_taken);
  std::erase_if(parked_, is_taken);
  std::erase_if(moving_,
                [&](const auto& entry) { return is_taken(entry.first) || is_taken(entry.second); });
}

std::optional<AnnounceRoleChange> RoleChanges::Begin(const PlanFunction& plan,
                                                     std::int32_t iterations_done,
                                                     std::int32_t iterations, TimePoint now) {
  const bool is_under_way =
      !moving_.empty() && now < begun_ + kTimeoutsOnTheWay * options_.failure_timeout;
  if (leaving_ || is_under_way || iterations_done <= resumed_at_) return std::nullopt;
  if (!has_planned_) {
    candidate_ = FindCandidate(now);
    if (!candidate_) return std::nullopt;
    has_planned_ = true;
    if (!AddPeriods(*candidate_, plan)) candidate_.reset();
  }
  if (!candidate_) return std::nullopt;
  const Duration iteration = (now - resumed_) / (iterations_done - resumed_at_);
  const RoleChangeVerdict verdict =
      JudgeRoleChange({.period_now = candidate_->period_now,
                       .period_meanwhile = candidate_->period_meanwhile,
                       .period_after = candidate_->period_after,
                       .vacant = now - vacant_since_.at(candidate_->to),
                       .left = iteration * (iterations - iterations_done),
                       .copying = candidate_->copying,
                       .regroup = regroup_});
  if (!verdict.pays) return std::nullopt;
  tried_.insert(candidate_->to);
  begun_ = now;
  leaving_ = AnnounceRoleChange{.from = candidate_->from,
                                .to = candidate_->to,
                                .gain = verdict.gain,
                                .cost = verdict.cost,
                                .reason = verdict.reason};
  return leaving_;
}

std::optional<AnnounceRoleChange> RoleChanges::OnDeparting(WorkerId worker,
                                                           std::optional<WorkerId> next) {
  if (!leaving_ || leaving_->from != worker) return std::nullopt;
  std::optional<AnnounceRoleChange> change = std::exchange(leaving_, std::nullopt);
  const bool goes_on = next == change->to && roster_.IsLost(*next) && EvensOut(worker, *next);
  if (!goes_on) return std::nullopt;
  moving_[worker] = *next;
  return change;
}

void RoleChanges::OnLost(WorkerId worker) {
  if (leaving_ && leaving_->from == worker) leaving_.reset();
}

void RoleChanges::OnHello(WorkerId place) {
  std::erase_if(moving_, [place](const auto& entry) { return entry.second == place; });
}

std::optional<WorkerId> RoleChanges::NextPlaceOf(WorkerId worker) const {
  const auto entry = moving_.find(worker);
  if (entry == moving_.end()) return std::nullopt;
  return entry->second;
}

bool RoleChanges::EvensOut(WorkerId from, WorkerId to) const {
  return roster_.NumLeft(from.stage) >= roster_.NumLeft(to.stage) + 2;
}

// Of the stage with the most workers, of equals the last one, whoever has the highest pipeline.
std::optional<WorkerId> RoleChanges::BestWorkerFor(WorkerId place) const {
  std::optional<std::tuple<int, StageId, PipelineId>> best;
  for (const WorkerId worker : roster_.Live()) {
    const bool is_of_host =
        worker.pipeline.value() % options_.hosts == place.pipeline.value() % options_.hosts;
    if (!is_of_host || !EvensOut(worker, place)) continue;
    const std::tuple candidate(roster_.NumLeft(worker.stage), worker.stage, worker.pipeline);
    if (!best || candidate > *best) best = candidate;
  }
  if (!best) return std::nullopt;
  return WorkerId{std::get<PipelineId>(*best), std::get<StageId>(*best)};
}

// For the place whose stage has the fewest workers, of equals the one that has been vacant longest.
std::optional<RoleChanges::Candidate> RoleChanges::FindCandidate(TimePoint now) const {
  std::optional<std::tuple<int, TimePoint, WorkerId>> best;
  std::optional<WorkerId> from;
  for (const auto& [place, since] : vacant_since_) {
    const bool may_come = options_.respawns && !parked_.contains(place);
    const bool is_fresh = now < since + kTimeoutsOnTheWay * options_.failure_timeout;
    if (may_come || is_fresh || tried_.contains(place) || !roster_.IsLost(place)) continue;
    const std::tuple candidate(roster_.NumLeft(place.stage), since, place);
    if (best && candidate >= *best) continue;
    const std::optional<WorkerId> worker = BestWorkerFor(place);
    if (!worker) continue;
    best = candidate;
    from = worker;
  }
  if (!best) return std::nullopt;
  return Candidate{.from = *from, .to = std::get<WorkerId>(*best)};
}

bool RoleChanges::AddPeriods(Candidate& candidate, const PlanFunction& plan) const {
  std::vector<WorkerId> failed = roster_.Lost();
  const StatusOr<Plan> now = plan(failed);
  failed.insert(std::lower_bound(failed.begin(), failed.end(), candidate.from), candidate.from);
  const StatusOr<Plan> meanwhile = plan(failed);
  std::erase(failed, candidate.to);
  const StatusOr<Plan> after = plan(failed);
  if (!now.ok() || !meanwhile.ok() || !after.ok()) return false;
  candidate.period_now = now->period.value_or(0);
  candidate.period_meanwhile = meanwhile->period.value_or(0);
  candidate.period_after = after->period.value_or(0);
  const std::size_t stage = Index(candidate.to.stage.value());
  candidate.copying = FromSeconds(now->costs.stages[stage].state_bytes /
                                  options_.copy_bytes_per_second.value_or(kCopyBytesPerSecond));
  return candidate.period_after > 0 && candidate.period_after < candidate.period_now &&
         candidate.period_meanwhile > 0;
}

}  // namespace recycle
