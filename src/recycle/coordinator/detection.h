// Who is dead and which links must be made anew: the rules that turn signals into verdicts.
//
// - waitpid, the end of the worker's agent, its own last words: dead at once.
// - A broken link reported by one end: a suspicion. With the accused one's control stream closed,
// or a
//   second reporter in the same generation: dead. Alone: the accused is asked; once it answers, or
//   accuses the reporter in turn (the two ends of ONE broken link), both live and the link is made
//   anew. A report of somebody who is dead or whose own stream closed is void: a dying worker
//   accuses its live peers.
// - The third fault of a link within the window removes the end with more link faults.
// - Silence for longer than the failure timeout: dead.
// - No action finished for 20 times as long as planned and 5 failure timeouts, though the inputs of
//   the running one were there: dead. What a plan's tick takes is known from the worker's earlier
//   actions, or from the slowest worker's; before that nobody is judged.
// Only waitpid, agents, last words and silence remove the last worker of a stage.
//
// Each On... notes its verdicts; TakeFindings hands them over. It marks lost workers in the roster.
// Not thread-safe; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_DETECTION_H_
#define RECYCLE_COORDINATOR_DETECTION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/coordinator/events.h"
#include "recycle/coordinator/roster.h"
#include "recycle/protocol/messages.h"

namespace recycle {

struct DetectionRules {
  Duration failure_timeout{};
  Duration ask_timeout{};
  int link_faults_allowed = 2;
  Duration link_fault_window{};
};

// Two ends, the smaller one first.
using Link = std::pair<WorkerId, WorkerId>;
Link MakeLink(WorkerId a, WorkerId b);

class Detection {
 public:
  struct Findings {
    std::vector<Loss> losses;
    std::vector<Link> broken_links;  // both ends live
    std::vector<std::pair<WorkerId, Ask>> asks;
    std::vector<std::string> warnings;  // for people
  };

  // `roster` must outlive it.
  Detection(const DetectionRules& rules, Roster* roster) : rules_(rules), roster_(*roster) {}

  // All workers named here are in the roster.
  void OnHeard(WorkerId worker, TimePoint now);
  void OnHeartbeat(WorkerId worker, const Heartbeat& beat, TimePoint now);
  void OnLinkBroken(WorkerId reporter, const LinkBroken& report, TimePoint now);
  void OnStillHere(WorkerId worker, const StillHere& answer, TimePoint now);
  void OnStreamClosed(WorkerId worker, TimePoint now);
  // It has a control stream again: what it was asked over the old one, it is asked anew.
  void OnReconnected(WorkerId worker, TimePoint now);
  void OnExited(const ExecutorExited& exited, std::int32_t agent, TimePoint now);
  void OnAgentLost(WorkerId worker, std::int32_t agent, TimePoint now);
  void OnLastWords(WorkerId worker, const LastWords& words, TimePoint now);
  // It has drained, as asked. `why`: for people.
  void OnDeparting(WorkerId worker, const std::string& why, TimePoint now);
  // It was a member when this coordinator began, at `since`, and has not said hello to it.
  void OnAbsent(WorkerId worker, TimePoint since, TimePoint now);
  // Another process has come for its place.
  void OnReplaced(WorkerId worker, TimePoint now);
  // Its state after `version` iterations differs from that of `peers`, the majority of its stage.
  void OnCorrupted(WorkerId worker, std::int32_t version, const std::vector<WorkerId>& peers,
                   TimePoint now);
  // Silence and unanswered questions.
  void OnTime(TimePoint now);
  // The coordinator itself did not run for `gap`: nobody could be heard meanwhile.
  void ForgiveGap(Duration gap);

  std::optional<TimePoint> NextDeadline() const;
  Findings TakeFindings() { return std::exchange(findings_, Findings()); }

 private:
  // What is held against one live worker, until it is decided.
  struct Suspicion {
    std::map<WorkerId, Generation> reporters;  // and the generation their link broke in
    TimePoint since;
    std::int64_t nonce = 0;
    std::optional<TimePoint> answer_due;  // absent: not asked yet, or the time is over
    bool unanswered = false;
  };
  struct LinkFault {
    Link link;
    TimePoint when;
  };

  // How long the running action of `planned` ticks may take; absent: nobody knows.
  std::optional<double> ProgressLimitMs(const Place& place, Ticks planned) const;
  void Judge(WorkerId accused, Generation generation, TimePoint now);
  bool IsAccusedBy(WorkerId accused, WorkerId reporter) const;
  void Acquit(WorkerId accused, WorkerId reporter, TimePoint now);
  void NoteLinkFault(WorkerId reporter, WorkerId accused, Generation generation, TimePoint now);
  std::optional<WorkerId> WorseEnd(WorkerId reporter, WorkerId accused) const;
  int NumLinkFaults(WorkerId worker) const;
  void DropReportsOf(WorkerId reporter);
  void Lose(WorkerId worker, LossCause cause, std::string detected_by, std::string how,
            TimePoint first_signal);
  // The earliest sign that something is wrong with the worker.
  TimePoint FirstSignal(WorkerId worker, TimePoint now) const;

  const DetectionRules rules_;
  Roster& roster_;
  std::map<WorkerId, Suspicion> suspicions_;  // by accused
  std::map<Link, Generation> relinked_in_;    // reports of that generation or older are known
  std::deque<LinkFault> link_faults_;         // within the window, oldest first
  std::int64_t next_nonce_ = 1;
  Findings findings_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_DETECTION_H_
