#include "recycle/coordinator/detection.h"

#include <fmt/format.h>

#include <algorithm>

#include "recycle/base/process_end.h"

namespace recycle {
namespace {

// How long an action may take: this many times as long as planned, and this many failure timeouts.
constexpr double kPlannedDurations = 20;
constexpr double kFailureTimeouts = 5;

std::string DescribeWaitStatus(int wait_status) {
  const ProcessEnd end = DecodeWaitStatus(wait_status);
  return fmt::format("its process {} {}", end.by_signal ? "ended by signal" : "exited with code",
                     end.number);
}

double ToSeconds(Duration duration) { return ToMilliseconds(duration) / 1000.0; }

}  // namespace

Link MakeLink(WorkerId a, WorkerId b) { return a < b ? Link(a, b) : Link(b, a); }

void Detection::OnHeard(WorkerId worker, TimePoint now) { roster_.At(worker).last_heard = now; }

void Detection::OnHeartbeat(WorkerId worker, const Heartbeat& beat, TimePoint now) {
  Place& place = roster_.At(worker);
  place.ns_per_tick = beat.ns_per_tick;
  if (beat.running_ticks == 0) {
    place.running.reset();
    return;
  }
  if (!place.running || place.running->actions_done != beat.actions_done) {
    place.running = {.actions_done = beat.actions_done, .since = now};
    return;
  }
  const double taken_ms = ToMilliseconds(now - place.running->since);
  const std::optional<double> limit_ms = ProgressLimitMs(place, beat.running_ticks);
  if (!limit_ms || taken_ms < *limit_ms) return;
  std::string how = fmt::format(
      "it has finished no action for {:.1f} s, though all inputs of the running one are there; "
      "{:.1f} s are the limit",
      taken_ms / 1000, *limit_ms / 1000);
  if (!roster_.IsLastOfStage(worker)) {
    Lose(worker, LossCause::kProgress, "coordinator", std::move(how), place.running->since);
  } else if (!std::exchange(place.running->warned, true)) {
    findings_.warnings.push_back(
        fmt::format("worker {}, the last of its stage, stays: {}", ToString(worker), how));
  }
}

std::optional<double> Detection::ProgressLimitMs(const Place& place, Ticks planned) const {
  const double pace = place.ns_per_tick > 0 ? place.ns_per_tick : roster_.SlowestPace();
  if (pace == 0) return std::nullopt;
  const double planned_ms = static_cast<double>(planned) * pace / 1e6;
  return std::max(kPlannedDurations * planned_ms,
                  kFailureTimeouts * ToMilliseconds(rules_.failure_timeout));
}

void Detection::OnLinkBroken(WorkerId reporter, const LinkBroken& report, TimePoint now) {
  const WorkerId accused = report.peer;
  if (accused == reporter || !roster_.IsLive(accused)) return;
  const auto relinked = relinked_in_.find(MakeLink(reporter, accused));
  if (relinked != relinked_in_.end() && report.generation <= relinked->second) return;
  const auto [suspicion, is_new] = suspicions_.try_emplace(accused);
  if (is_new) suspicion->second.since = now;
  suspicion->second.reporters[reporter] = report.generation;
  if (IsAccusedBy(reporter, accused)) {
    Acquit(accused, reporter, now);
  } else {
    Judge(accused, report.generation, now);
  }
}

void Detection::Judge(WorkerId accused, Generation generation, TimePoint now) {
  Suspicion& suspicion = suspicions_.at(accused);
  const auto& reporters = suspicion.reporters;
  const auto same_generation = std::count_if(reporters.begin(), reporters.end(),
                                             [&](const auto& r) { return r.second == generation; });
  const bool closed = !roster_.At(accused).stream_open;
  if ((closed || same_generation >= 2) && !roster_.IsLastOfStage(accused)) {
    const std::string first = ToString(reporters.begin()->first);
    std::string how = fmt::format("its link to {} broke and its control stream is closed", first);
    if (!closed) {
      how = fmt::format("its links to {} and {} broke", first, ToString(reporters.rbegin()->first));
    }
    if (suspicion.unanswered) how += ", and it did not answer when asked";
    Lose(accused, LossCause::kLink, first, std::move(how), FirstSignal(accused, now));
  } else if (!closed && suspicion.nonce == 0) {
    suspicion.nonce = next_nonce_++;
    suspicion.answer_due = now + rules_.ask_timeout;
    findings_.asks.emplace_back(accused, Ask{.nonce = suspicion.nonce});
  }
}

bool Detection::IsAccusedBy(WorkerId accused, WorkerId reporter) const {
  const auto suspicion = suspicions_.find(accused);
  return suspicion != suspicions_.end() && suspicion->second.reporters.contains(reporter);
}

// The two live and accuse one another: their link is at fault, neither of them.
void Detection::Acquit(WorkerId accused, WorkerId reporter, TimePoint now) {
  Generation generation;
  for (const auto& [who, by] : {std::pair(accused, reporter), std::pair(reporter, accused)}) {
    const auto suspicion = suspicions_.find(who);
    if (suspicion == suspicions_.end()) continue;
    auto& reporters = suspicion->second.reporters;
    if (const auto report = reporters.find(by); report != reporters.end()) {
      generation = std::max(generation, report->second);
      reporters.erase(report);
    }
    if (reporters.empty()) suspicions_.erase(suspicion);
  }
  NoteLinkFault(reporter, accused, generation, now);
}

void Detection::OnStillHere(WorkerId worker, const StillHere& answer, TimePoint now) {
  const auto suspicion = suspicions_.find(worker);
  if (suspicion == suspicions_.end() || suspicion->second.nonce != answer.nonce) return;
  const std::map<WorkerId, Generation> reporters = suspicion->second.reporters;
  for (const auto& [reporter, generation] : reporters) {
    if (roster_.IsLive(worker) && roster_.IsLive(reporter)) Acquit(worker, reporter, now);
  }
}

void Detection::NoteLinkFault(WorkerId reporter, WorkerId accused, Generation generation,
                              TimePoint now) {
  const Link link = MakeLink(reporter, accused);
  while (!link_faults_.empty() && link_faults_.front().when + rules_.link_fault_window < now) {
    link_faults_.pop_front();
  }
  link_faults_.push_back({link, now});
  const auto faults = std::count_if(link_faults_.begin(), link_faults_.end(),
                                    [&](const LinkFault& fault) { return fault.link == link; });
  if (faults > rules_.link_faults_allowed) {
    if (const auto worse = WorseEnd(reporter, accused)) {
      const WorkerId other = *worse == accused ? reporter : accused;
      Lose(*worse, LossCause::kLink, ToString(other),
           fmt::format("its link to {} broke {} times within {:.0f} s", ToString(other), faults,
                       ToSeconds(rules_.link_fault_window)),
           now);
      return;
    }
  }
  relinked_in_[link] = generation;
  findings_.broken_links.push_back(link);
}

// The end with more link faults; of equals the one whose stage has more workers left, then the
// accused. Nobody if both are the last of their stage.
std::optional<WorkerId> Detection::WorseEnd(WorkerId reporter, WorkerId accused) const {
  if (roster_.IsLastOfStage(accused)) {
    if (roster_.IsLastOfStage(reporter)) return std::nullopt;
    return reporter;
  }
  if (roster_.IsLastOfStage(reporter)) return accused;
  const auto badness = [&](WorkerId worker) {
    return std::pair(NumLinkFaults(worker), roster_.NumLeft(worker.stage));
  };
  return badness(reporter) > badness(accused) ? reporter : accused;
}

int Detection::NumLinkFaults(WorkerId worker) const {
  return static_cast<int>(
      std::count_if(link_faults_.begin(), link_faults_.end(), [&](const LinkFault& fault) {
        return fault.link.first == worker || fault.link.second == worker;
      }));
}

void Detection::OnStreamClosed(WorkerId worker, TimePoint now) {
  Place& place = roster_.At(worker);
  place.stream_open = false;
  if (!roster_.IsLive(worker)) return;
  place.closed_at = now;
  DropReportsOf(worker);
  const auto suspicion = suspicions_.find(worker);
  if (suspicion != suspicions_.end()) {
    Judge(worker, suspicion->second.reporters.begin()->second, now);
  }
}

void Detection::OnReconnected(WorkerId worker, TimePoint now) {
  const auto suspicion = suspicions_.find(worker);
  if (suspicion == suspicions_.end()) return;
  suspicion->second.nonce = 0;
  suspicion->second.answer_due.reset();
  Judge(worker, suspicion->second.reporters.begin()->second, now);
}

void Detection::OnExited(const ExecutorExited& exited, std::int32_t agent, TimePoint now) {
  Lose(exited.worker, LossCause::kProcess, fmt::format("agent {}", agent),
       DescribeWaitStatus(exited.wait_status), FirstSignal(exited.worker, now));
}

void Detection::OnAgentLost(WorkerId worker, std::int32_t agent, TimePoint now) {
  Lose(worker, LossCause::kProcess, fmt::format("agent {}", agent),
       fmt::format("agent {} is gone and its processes with it", agent), FirstSignal(worker, now));
}

void Detection::OnLastWords(WorkerId worker, const LastWords& words, TimePoint now) {
  Lose(worker, LossCause::kWords, ToString(worker), fmt::format("it said: {}", words.message),
       FirstSignal(worker, now));
}

void Detection::OnDeparting(WorkerId worker, const std::string& why, TimePoint now) {
  roster_.At(worker).left = true;
  Lose(worker, LossCause::kNotice, ToString(worker), why, now);
}

void Detection::OnAbsent(WorkerId worker, TimePoint since, TimePoint now) {
  Lose(
      worker, LossCause::kSilence, "coordinator",
      fmt::format("it has not come to the new coordinator within {:.1f} s", ToSeconds(now - since)),
      since);
}

void Detection::OnCorrupted(WorkerId worker, std::int32_t version,
                            const std::vector<WorkerId>& peers, TimePoint now) {
  Lose(worker, LossCause::kCorruption, ToString(peers),
       fmt::format("its parameters or moments after {} iterations are not those of {}: memory that "
                   "corrupts data, or a bug",
                   version, ToString(peers)),
       now);
}

void Detection::OnReplaced(WorkerId worker, TimePoint now) {
  Lose(worker, LossCause::kProcess, "coordinator", "another process has come for its place", now);
}

void Detection::OnTime(TimePoint now) {
  for (const WorkerId worker : roster_.Live()) {
    const TimePoint last_heard = roster_.At(worker).last_heard;
    if (now - last_heard < rules_.failure_timeout) continue;
    Lose(worker, LossCause::kSilence, "coordinator",
         fmt::format("silent for {:.1f} s", ToSeconds(now - last_heard)), last_heard);
  }
  for (auto& [accused, suspicion] : suspicions_) {
    if (!suspicion.answer_due || now < *suspicion.answer_due) continue;
    suspicion.answer_due.reset();
    suspicion.unanswered = true;
  }
}

void Detection::ForgiveGap(Duration gap) {
  for (const WorkerId worker : roster_.Live()) {
    Place& place = roster_.At(worker);
    place.last_heard += gap;
    if (place.running) place.running->since += gap;
  }
  for (auto& [accused, suspicion] : suspicions_) {
    if (suspicion.answer_due) *suspicion.answer_due += gap;
  }
}

std::optional<TimePoint> Detection::NextDeadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint deadline) {
    if (!next || deadline < *next) next = deadline;
  };
  for (const WorkerId worker : roster_.Live()) {
    consider(roster_.At(worker).last_heard + rules_.failure_timeout);
  }
  for (const auto& [accused, suspicion] : suspicions_) {
    if (suspicion.answer_due) consider(*suspicion.answer_due);
  }
  return next;
}

void Detection::DropReportsOf(WorkerId reporter) {
  for (auto suspicion = suspicions_.begin(); suspicion != suspicions_.end();) {
    suspicion->second.reporters.erase(reporter);
    suspicion = suspicion->second.reporters.empty() ? suspicions_.erase(suspicion) : ++suspicion;
  }
}

TimePoint Detection::FirstSignal(WorkerId worker, TimePoint now) const {
  TimePoint first = now;
  const auto suspicion = suspicions_.find(worker);
  if (suspicion != suspicions_.end()) first = std::min(first, suspicion->second.since);
  if (const auto& closed_at = roster_.At(worker).closed_at) first = std::min(first, *closed_at);
  return first;
}

void Detection::Lose(WorkerId worker, LossCause cause, std::string detected_by, std::string how,
                     TimePoint first_signal) {
  Place& place = roster_.At(worker);
  if (place.presence == Place::Presence::kLost) return;
  place.presence = Place::Presence::kLost;
  place.how_lost = how;
  findings_.losses.push_back(
      {LostWorker{worker, cause, std::move(detected_by), first_signal, place.version},
       std::move(how)});
  suspicions_.erase(worker);
  DropReportsOf(worker);
  std::erase_if(findings_.broken_links,
                [&](const Link& link) { return link.first == worker || link.second == worker; });
  std::erase_if(findings_.asks, [&](const auto& ask) { return ask.first == worker; });
}

}  // namespace recycle
