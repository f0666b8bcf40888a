#include "recycle/protocol/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "recycle/base/check.h"

namespace recycle {
namespace {

constexpr std::string_view kExample = "e.g. \"kill 1:1 at F of iteration 20\"";

constexpr double kMost = 1e6;  // of a slow-down and of seconds: more is no fault but a typing error

struct PointName {
  FaultPoint point;
  std::string_view text;
};
constexpr std::array<PointName, 21> kPoints{{
    {FaultPoint::kStart, "start"},
    {FaultPoint::kForward, "F"},
    {FaultPoint::kBackwardInput, "I"},
    {FaultPoint::kBackwardWeight, "W"},
    {FaultPoint::kSend, "send"},
    {FaultPoint::kRecv, "recv"},
    {FaultPoint::kAllReduce, "all-reduce"},
    {FaultPoint::kCommit, "commit"},
    {FaultPoint::kStep, "step"},
    {FaultPoint::kValidate, "validate"},
    {FaultPoint::kRegroup, "regroup"},
    {FaultPoint::kHeartbeat, "heartbeat"},
    {FaultPoint::kSnapshot, "snapshot"},
    {FaultPoint::kCheckpoint, "checkpoint"},
    {FaultPoint::kCheckpointRename, "checkpoint.rename"},
    {FaultPoint::kCheckpointManifest, "checkpoint.manifest"},
    {FaultPoint::kCheckpointMarker, "checkpoint.marker"},
    {FaultPoint::kCheckpointLatest, "checkpoint.latest"},
    {FaultPoint::kCheckpointPrune, "checkpoint.prune"},
    {FaultPoint::kJoin, "join"},
    {FaultPoint::kStore, "store"},
}};

// The whole of `text` as a number; nothing else may stand in it.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  return number;
}

// Reads a fault word by word.
class FaultParser {
 public:
  explicit FaultParser(std::string_view text) : text_(text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(' ', begin), text.size());
      if (end > begin) words_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  StatusOr<Fault> Parse() {
    Fault fault;
    RC_RETURN_IF_ERROR(ParseWhat(fault));
    RC_RETURN_IF_ERROR(ParseTarget(fault.target));
    RC_RETURN_IF_ERROR(Expect("at", "'at'"));
    RC_RETURN_IF_ERROR(ParsePoint(fault.point));
    while (next_ < words_.size()) RC_RETURN_IF_ERROR(ParseClause(fault));
    return fault;
  }

 private:
  std::string_view Take() { return next_ < words_.size() ? words_[next_++] : std::string_view(); }

  Status Unfit(std::string_view word, std::string_view rule) const {
    const std::string subject =
        word.empty() ? "it ends too early" : fmt::format("'{}' does not fit", word);
    return absl::InvalidArgumentError(
        fmt::format("fault \"{}\": {}; here may stand {}; {}", text_, subject, rule, kExample));
  }

  Status Expect(std::string_view word, std::string_view rule) {
    const std::string_view found = Take();
    return found == word ? OkStatus() : Unfit(found, rule);
  }

  Status ParseWhat(Fault& fault) {
    const std::string_view word = Take();
    for (const FaultKind kind : {FaultKind::kKill, FaultKind::kStop, FaultKind::kSlow,
                                 FaultKind::kDrop, FaultKind::kCorrupt, FaultKind::kDiskFull}) {
      if (word != WhatText(kind)) continue;
      fault.what = kind;
      return kind == FaultKind::kSlow ? ParseFactor(fault) : OkStatus();
    }
    return Unfit(word, "kill, stop, slow xN, drop, corrupt or diskfull");
  }

  Status ParseFactor(Fault& fault) {
    const std::string_view word = Take();
    const auto factor = word.starts_with('x') ? ParseNumber<double>(word.substr(1)) : std::nullopt;
    if (!factor || !(*factor >= 1 && *factor <= kMost)) {
      return Unfit(word,
                   "xN, how many times as long actions take, N from 1 to 1000000, as in x2.5");
    }
    fault.factor = *factor;
    return OkStatus();
  }

  Status ParseTarget(FaultTarget& target) {
    static constexpr std::string_view kRule =
        "a worker k:i, agent:N, coordinator, store, stage i, all or link k:i-k:i";
    const std::string_view word = Take();
    std::string_view number;
    if (word == "coordinator") {
      target.kind = TargetKind::kCoordinator;
    } else if (word == "store") {
      target.kind = TargetKind::kStore;
    } else if (word == "all") {
      target.kind = TargetKind::kAll;
    } else if (word == "link") {
      return ParseLink(target);
    } else if (word == "stage" || word.starts_with("agent:")) {
      target.kind = word == "stage" ? TargetKind::kStage : TargetKind::kAgent;
      number = word == "stage" ? Take() : word.substr(word.find(':') + 1);
      const auto index = ParseNumber<std::int32_t>(number);
      if (!index || *index < 0) return Unfit(number, "a number from 0, as in stage 1 or agent:0");
      target.index = *index;
    } else {
      const auto worker = ParseWorkerId(word);
      if (!worker.ok()) return Unfit(word, kRule);
      target.worker = *worker;
    }
    return OkStatus();
  }

  Status ParseLink(FaultTarget& target) {
    const std::string_view word = Take();
    const std::size_t dash = std::min(word.find('-'), word.size());
    const auto a = ParseWorkerId(word.substr(0, dash));
    const auto b = ParseWorkerId(word.substr(std::min(dash + 1, word.size())));
    if (!a.ok() || !b.ok()) return Unfit(word, "the two ends of a link, as in 0:0-1:1");
    target = {.kind = TargetKind::kLink, .worker = *a, .other = *b};
    return OkStatus();
  }

  Status ParsePoint(FaultPoint& point) {
    const std::string_view word = Take();
    std::string choices;
    for (const PointName& name : kPoints) {
      if (word == name.text) {
        point = name.point;
        return OkStatus();
      }
      choices += fmt::format("{}{}", choices.empty() ? "" : " ", name.text);
    }
    return Unfit(word, "one of: " + choices);
  }

  // One of "of iteration N", "on ACTION", "for SECONDSs", "and rejoin after SECONDSs", each once.
  Status ParseClause(Fault& fault) {
    const std::string_view word = Take();
    if (word == "of" && !fault.iteration) {
      RC_RETURN_IF_ERROR(Expect("iteration", "'iteration' and its number"));
      const std::string_view number = Take();
      fault.iteration = ParseNumber<std::int32_t>(number);
      if (fault.iteration && *fault.iteration >= 1) return OkStatus();
      return Unfit(number, "the iteration's number, counted from 1");
    }
    if (word == "on" && !fault.action) {
      const std::string_view text = Take();
      const auto action = ParseAction(text);
      if (!action.ok()) return Unfit(text, "an action, as in 1F0.2");
      fault.action = *action;
      return OkStatus();
    }
    if (word == "for" && !fault.for_seconds) return ParseSeconds(fault.for_seconds);
    if (word == "and" && !fault.rejoin_after_seconds) {
      RC_RETURN_IF_ERROR(
          Expect("rejoin", "'rejoin after' and seconds, as in 'and rejoin after 2s'"));
      RC_RETURN_IF_ERROR(Expect("after", "'after' and seconds, as in 'and rejoin after 2s'"));
      return ParseSeconds(fault.rejoin_after_seconds);
    }
    return Unfit(
        word,
        "'of iteration N', 'on ACTION', 'for Ns' or 'and rejoin after Ns', each at most once");
  }

  Status ParseSeconds(std::optional<double>& seconds) {
    const std::string_view word = Take();
    if (word.ends_with('s')) seconds = ParseNumber<double>(word.substr(0, word.size() - 1));
    if (seconds && *seconds > 0 && *seconds <= kMost) return OkStatus();
    return Unfit(word, "a time above 0 in seconds, at most 1000000, as in 2s or 0.5s");
  }

  const std::string_view text_;
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
};

// Can a worker be at `point` while it runs an action of `kind`? I and W are also inside a B.
bool MayHold(FaultPoint point, ActionKind kind) {
  switch (point) {
    case FaultPoint::kForward:
      return kind == ActionKind::kForward;
    case FaultPoint::kBackwardInput:
      return kind == ActionKind::kBackwardInput || kind == ActionKind::kBackward;
    case FaultPoint::kBackwardWeight:
      return kind == ActionKind::kBackwardWeight || kind == ActionKind::kBackward;
    case FaultPoint::kSend:
    case FaultPoint::kRecv:
    case FaultPoint::kHeartbeat:
      return true;
    case FaultPoint::kAllReduce:
    case FaultPoint::kCommit:
      return kind == ActionKind::kReduceGrad;
    case FaultPoint::kValidate:
      return kind == ActionKind::kValidate;
    case FaultPoint::kStep:
      return kind == ActionKind::kStep;
    case FaultPoint::kStart:
    case FaultPoint::kRegroup:
    case FaultPoint::kSnapshot:
    case FaultPoint::kCheckpoint:
    case FaultPoint::kCheckpointRename:
    case FaultPoint::kCheckpointManifest:
    case FaultPoint::kCheckpointMarker:
    case FaultPoint::kCheckpointLatest:
    case FaultPoint::kCheckpointPrune:
    case FaultPoint::kJoin:
    case FaultPoint::kStore:
      return false;
  }
  RC_CHECK(false) << "fault point " << static_cast<int>(point);
  return false;
}

// Points in the thread that owns the parameters.
bool IsOfTraining(FaultPoint point) {
  return point == FaultPoint::kForward || point == FaultPoint::kBackwardInput ||
         point == FaultPoint::kBackwardWeight || point == FaultPoint::kRecv ||
         point == FaultPoint::kCommit || point == FaultPoint::kStep ||
         point == FaultPoint::kValidate;
}

// Refuses parts that make no sense together.
Status CheckParts(const Fault& fault, std::string_view text) {
  const auto refuse = [&](std::string_view rule) {
    return absl::InvalidArgumentError(fmt::format("fault \"{}\": {}; {}", text, rule, kExample));
  };
  if ((fault.what == FaultKind::kDrop) != (fault.target.kind == TargetKind::kLink)) {
    return refuse("'drop' and a link belong together, as in 'drop link 0:0-1:1 at send'");
  }
  if (fault.for_seconds && fault.what != FaultKind::kStop && fault.what != FaultKind::kSlow) {
    return refuse(fmt::format("'for' fits stop and slow only, not {}", WhatText(fault.what)));
  }
  if (fault.rejoin_after_seconds &&
      (fault.what != FaultKind::kKill || fault.target.kind != TargetKind::kWorker)) {
    return refuse("'and rejoin after' fits the kill of one worker");
  }
  if (fault.what == FaultKind::kCorrupt &&
      (fault.target.kind != TargetKind::kWorker || !IsOfTraining(fault.point))) {
    return refuse(
        "'corrupt' flips a bit of one worker, at F, I, W, recv, commit, step or validate, as in "
        "'corrupt 1:0 at F of iteration 5'");
  }
  if (fault.target.kind == TargetKind::kAgent && fault.what != FaultKind::kKill) {
    return refuse(fmt::format("an agent can be killed only, not '{}'", WhatText(fault.what)));
  }
  if (IsOfCommit(fault.point) &&
      (fault.what != FaultKind::kKill || fault.target.kind != TargetKind::kAll)) {
    return refuse(fmt::format("at {} there is 'kill all' only", PointText(fault.point)));
  }
  if (fault.target.kind == TargetKind::kCoordinator && fault.what == FaultKind::kSlow) {
    return refuse("a coordinator can be killed, stopped or given a full disk, not slowed");
  }
  if (fault.target.kind == TargetKind::kStore &&
      (fault.what != FaultKind::kStop || !fault.for_seconds)) {
    return refuse("the store can be stopped for a while only, as in 'stop store at F for 1s'");
  }
  if (fault.point == FaultPoint::kStore && !IsOfCoordinator(fault)) {
    return refuse("only the coordinator is ever at the point store");
  }
  const bool has_no_link = fault.point == FaultPoint::kStart || fault.point == FaultPoint::kJoin;
  if (has_no_link && fault.what == FaultKind::kDrop) {
    return refuse(fmt::format("at {} there is no link yet; the first point with one is regroup",
                              PointText(fault.point)));
  }
  const bool is_late = fault.iteration.value_or(1) != 1;
  if (fault.point == FaultPoint::kStart && !IsOfCoordinator(fault) && is_late) {
    return refuse("start comes before iteration 1; leave 'of iteration' out");
  }
  if (fault.action && !MayHold(fault.point, fault.action->kind)) {
    return refuse(fmt::format("point {} is never inside action {}", PointText(fault.point),
                              ToString(*fault.action)));
  }
  return OkStatus();
}

Status CheckWorker(const Fault& fault, WorkerId worker, int data, int pipeline) {
  if (worker.pipeline.value() < data && worker.stage.value() < pipeline) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("fault \"{}\": there is no worker {}; pipelines are 0 to {}, stages 0 to {}",
                  ToString(fault), ToString(worker), data - 1, pipeline - 1));
}

Status CheckIndex(const Fault& fault, std::string_view name, int count) {
  if (fault.target.index < count) return OkStatus();
  return absl::InvalidArgumentError(fmt::format("fault \"{}\": there is no {} {}; they are 0 to {}",
                                                ToString(fault), name, fault.target.index,
                                                count - 1));
}

Status CheckTarget(const Fault& fault, int data, int pipeline, int agents) {
  switch (fault.target.kind) {
    case TargetKind::kWorker:
      return CheckWorker(fault, fault.target.worker, data, pipeline);
    case TargetKind::kLink: {
      RC_RETURN_IF_ERROR(CheckWorker(fault, fault.target.worker, data, pipeline));
      RC_RETURN_IF_ERROR(CheckWorker(fault, fault.target.other, data, pipeline));
      const int a = fault.target.worker.stage.value();
      const int b = fault.target.other.stage.value();
      if (std::abs(a - b) == 1) return OkStatus();
      return absl::InvalidArgumentError(
          fmt::format("fault \"{}\": stages {} and {} have no link; only neighbours have",
                      ToString(fault), a, b));
    }
    case TargetKind::kAgent:
      return CheckIndex(fault, "agent", agents);
    case TargetKind::kStage:
      return CheckIndex(fault, "stage", pipeline);
    case TargetKind::kCoordinator:
    case TargetKind::kStore:
    case TargetKind::kAll:
      return OkStatus();
  }
  RC_CHECK(false) << "target kind " << static_cast<int>(fault.target.kind);
  return OkStatus();
}

}  // namespace

std::string_view WhatText(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKill:
      return "kill";
    case FaultKind::kStop:
      return "stop";
    case FaultKind::kSlow:
      return "slow";
    case FaultKind::kDrop:
      return "drop";
    case FaultKind::kCorrupt:
      return "corrupt";
    case FaultKind::kDiskFull:
      return "diskfull";
  }
  RC_CHECK(false) << "fault kind " << static_cast<int>(kind);
  return "";
}

std::string TargetText(const FaultTarget& target) {
  switch (target.kind) {
    case TargetKind::kWorker:
      return ToString(target.worker);
    case TargetKind::kAgent:
      return fmt::format("agent:{}", target.index);
    case TargetKind::kCoordinator:
      return "coordinator";
    case TargetKind::kStore:
      return "store";
    case TargetKind::kStage:
      return fmt::format("stage {}", target.index);
    case TargetKind::kAll:
      return "all";
    case TargetKind::kLink:
      return fmt::format("link {}-{}", ToString(target.worker), ToString(target.other));
  }
  RC_CHECK(false) << "target kind " << static_cast<int>(target.kind);
  return "";
}

std::string_view PointText(FaultPoint point) {
  const auto* name = std::find_if(kPoints.begin(), kPoints.end(),
                                  [&](const PointName& n) { return n.point == point; });
  RC_CHECK(name != kPoints.end()) << "fault point " << static_cast<int>(point);
  return name->text;
}

std::string ToString(const Fault& fault) {
  std::string text(WhatText(fault.what));
  if (fault.what == FaultKind::kSlow) text += fmt::format(" x{}", fault.factor);
  text += fmt::format(" {} at {}", TargetText(fault.target), PointText(fault.point));
  if (fault.iteration) text += fmt::format(" of iteration {}", *fault.iteration);
  if (fault.action) text += " on " + ToString(*fault.action);
  if (fault.for_seconds) text += fmt::format(" for {}s", *fault.for_seconds);
  if (fault.rejoin_after_seconds) {
    text += fmt::format(" and rejoin after {}s", *fault.rejoin_after_seconds);
  }
  return text;
}

StatusOr<Fault> ParseFault(std::string_view text) {
  RC_ASSIGN_OR_RETURN(Fault fault, FaultParser(text).Parse());
  RC_RETURN_IF_ERROR(CheckParts(fault, text));
  return fault;
}

Status CheckFault(const Fault& fault, int data, int pipeline, int agents, int iterations) {
  RC_RETURN_IF_ERROR(CheckTarget(fault, data, pipeline, agents));
  if (fault.iteration && (*fault.iteration < 1 || *fault.iteration > iterations)) {
    return absl::InvalidArgumentError(
        fmt::format("fault \"{}\": there is no iteration {}; they are 1 to {}", ToString(fault),
                    *fault.iteration, iterations));
  }
  return OkStatus();
}

bool IsOfCommit(FaultPoint point) {
  return point == FaultPoint::kCheckpointManifest || point == FaultPoint::kCheckpointMarker ||
         point == FaultPoint::kCheckpointLatest || point == FaultPoint::kCheckpointPrune;
}

bool IsOfCheckpoint(FaultPoint point) {
  return point == FaultPoint::kCheckpoint || point == FaultPoint::kCheckpointRename ||
         IsOfCommit(point);
}

bool IsOfCoordinator(const Fault& fault) {
  return fault.target.kind == TargetKind::kCoordinator || fault.target.kind == TargetKind::kStore;
}

bool Hits(const Fault& fault, WorkerId worker) {
  switch (fault.target.kind) {
    case TargetKind::kWorker:
      return fault.target.worker == worker;
    case TargetKind::kLink:
      return fault.target.worker == worker || fault.target.other == worker;
    case TargetKind::kStage:
      return fault.target.index == worker.stage.value();
    case TargetKind::kAll:
      return true;
    case TargetKind::kAgent:
    case TargetKind::kCoordinator:
    case TargetKind::kStore:
      return false;
  }
  RC_CHECK(false) << "target kind " << static_cast<int>(fault.target.kind);
  return false;
}

}  // namespace recycle
