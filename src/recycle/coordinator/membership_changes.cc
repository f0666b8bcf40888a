#include "recycle/coordinator/membership_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace recycle {

void MembershipChanges::Lose(Loss loss) {
  const WorkerId worker = loss.lost.worker;
  const auto touches = [worker](const Link& l) { return l.first == worker || l.second == worker; };
  std::erase_if(unrecorded_links_, touches);
  std::erase_if(links_, touches);
  std::erase_if(broken_links_, touches);
  std::erase(unrecorded_rejoins_, worker);
  unrecorded_stays_.erase(worker);
  unrecorded_reconnects_.erase(worker);
  std::erase_if(rejoins_, [&](const auto& news) { return news.worker == worker; });
  unprepared_losses_.push_back(worker);
  unplanned_losses_.push_back(worker);
  unrecorded_losses_.push_back(std::move(loss));
  pending_ = true;
}

void MembershipChanges::BreakLink(const Link& link) {
  unrecorded_links_.push_back(link);
  links_.push_back(link);
  broken_links_.push_back(link);
  pending_ = true;
}

void MembershipChanges::EndStandstill(const std::vector<Link>& links, Duration since) {
  links_ = links;
  unrecorded_standstill_ = since;
  pending_ = true;
}

void MembershipChanges::Admit(WorkerId worker) {
  unrecorded_rejoins_.push_back(worker);
  unrecorded_withdrawals_.erase(worker);
  pending_ = true;
}

void MembershipChanges::Withdraw(WorkerId worker, const std::string& why) {
  unrecorded_withdrawals_[worker] = why;
  std::erase(unrecorded_rejoins_, worker);
  std::erase_if(rejoins_, [worker](const auto& news) { return news.worker == worker; });
  unprepared_withdrawals_.push_back(worker);
  pending_ = true;
}

void MembershipChanges::Stay(WorkerId worker, const std::string& why) {
  unrecorded_stays_[worker] = why;
  pending_ = true;
}

void MembershipChanges::Reconnect(WorkerId worker) {
  unrecorded_reconnects_.insert(worker);
  pending_ = true;
}

void MembershipChanges::Rebalance(WorkerId worker, double score, bool is_slow) {
  unrecorded_plans_.push_back(
      is_slow ? fmt::format("worker {} gets less to do: its actions take {:.1f} x as long as its "
                            "peers'",
                            ToString(worker), score)
              : fmt::format("worker {} is as fast as its peers again", ToString(worker)));
  pending_ = true;
}

void MembershipChanges::Replan(double deviation) {
  unrecorded_plans_.push_back(fmt::format("the plan's costs were off by {:.0f}%", 100 * deviation));
  pending_ = true;
}

void MembershipChanges::Amend(const Verdict& verdict) {
  unrecorded_amend_ = verdict;
  pending_ = true;
}

void MembershipChanges::Redo(const Quantum& quantum) {
  unrecorded_redo_ = quantum;
  pending_ = true;
}

void MembershipChanges::Settle(AnnounceRejoin news) { rejoins_.push_back(std::move(news)); }

void MembershipChanges::TakeOver(const GenerationRecord& record, std::vector<WorkerId> lost,
                                 std::vector<WorkerId> unplanned) {
  new_leader_ = true;
  unprepared_losses_ = std::move(lost);
  unplanned_losses_ = std::move(unplanned);
  links_ = record.relinked;
  broken_links_ = record.relinked;
}

GenerationRecord MembershipChanges::TakeRecord(Generation generation, const Roster& roster,
                                               std::map<WorkerId, WorkerId> returning,
                                               std::optional<std::int32_t> restore,
                                               bool from_memory) {
  GenerationRecord record{.generation = generation,
                          .members = roster.Live(),
                          .pids = {},
                          .lost = {},
                          .returning = std::move(returning),
                          .relinked = links_,
                          .restore = restore,
                          .from_memory = from_memory,
                          .reason = Reason(roster, restore, from_memory)};
  for (const WorkerId member : record.members) record.pids[member] = roster.At(member).pid;
  for (const AnnounceRejoin& news : rejoins_) record.returning[news.worker] = news.donor;
  for (Loss& loss : unrecorded_losses_) record.lost.push_back(std::move(loss.lost));
  unrecorded_losses_.clear();
  unrecorded_links_.clear();
  unrecorded_standstill_.reset();
  unrecorded_rejoins_.clear();
  unrecorded_withdrawals_.clear();
  unrecorded_stays_.clear();
  unrecorded_reconnects_.clear();
  unrecorded_plans_.clear();
  unrecorded_amend_.reset();
  unrecorded_redo_.reset();
  new_leader_ = false;
  pending_ = false;
  return record;
}

std::vector<WorkerId> MembershipChanges::TakeUnprepared() {
  std::vector<WorkerId> gone = std::exchange(unprepared_losses_, {});
  gone.insert(gone.end(), unprepared_withdrawals_.begin(), unprepared_withdrawals_.end());
  unprepared_withdrawals_.clear();
  return gone;
}

std::string MembershipChanges::Reason(const Roster& roster, std::optional<std::int32_t> restore,
                                      bool from_memory) const {
  std::string reason;
  const auto add = [&reason](const std::string& part) {
    if (!reason.empty()) reason += "; ";
    reason += part;
  };
  if (new_leader_) add("a new coordinator leads");
  for (const Loss& loss : unrecorded_losses_) {
    const char* const what = loss.lost.cause == LossCause::kNotice ? "leaves" : "is lost";
    add(fmt::format("worker {} {}: {}", ToString(loss.lost.worker), what, loss.how));
  }
  for (const WorkerId worker : unrecorded_rejoins_) {
    add(fmt::format("worker {} is back", ToString(worker)));
  }
  for (const auto& [worker, why] : unrecorded_withdrawals_) {
    add(fmt::format("worker {} is not back: {}", ToString(worker), why));
  }
  for (const auto& [worker, why] : unrecorded_stays_) {
    add(fmt::format("worker {} stays: {}", ToString(worker), why));
  }
  for (const WorkerId worker : unrecorded_reconnects_) {
    add(fmt::format("the control stream of worker {} was made anew", ToString(worker)));
  }
  for (const std::string& why : unrecorded_plans_) add(why);
  for (const auto& [a, b] : unrecorded_links_) {
    add(fmt::format("the link {}-{} is made anew: both ends live", ToString(a), ToString(b)));
  }
  if (unrecorded_standstill_) {
    add(fmt::format("nobody has finished an action for {:.1f} s: all links are made anew",
                    ToMilliseconds(*unrecorded_standstill_) / 1000));
  }
  if (unrecorded_amend_) {
    add(fmt::format("all stages return to the end of iteration {}: its gradient has norm {:.6g}",
                    unrecorded_amend_->iteration + 1, std::sqrt(unrecorded_amend_->squared_norm)));
  }
  if (unrecorded_redo_) {
    add(
        fmt::format("a gradient of iteration {} does not fit the sums of stage {}, which are made "
                    "again",
                    unrecorded_redo_->iteration + 1, unrecorded_redo_->stage.value()));
  }
  if (restore) {
    add(fmt::format("everybody takes its state from the {} of iteration {}",
                    from_memory ? "snapshot in memory" : "checkpoint", *restore));
  }
  add(fmt::format("live workers: {}", roster.Live().size()));
  return reason;
}

}  // namespace recycle
