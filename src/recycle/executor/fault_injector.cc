#include "recycle/executor/fault_injector.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "recycle/base/check.h"
#include "recycle/base/log.h"
#include "recycle/base/process_fault.h"

namespace recycle {
namespace {

// Is it this process that carries the fault out? A link is cut by its first end, an agent is hit by
// the executors that belong to it.
bool IsCarriedOutBy(const Fault& fault, WorkerId worker, int agent) {
  switch (fault.target.kind) {
    case TargetKind::kWorker:
    case TargetKind::kStage:
      return Hits(fault, worker);
    case TargetKind::kAll:
      return !IsOfCommit(fault.point);
    case TargetKind::kLink:
      return fault.target.worker == worker;
    case TargetKind::kAgent:
      return fault.target.index == agent;
    case TargetKind::kCoordinator:
    case TargetKind::kStore:
      return false;
  }
  return false;
}

// Points that training does not pass itself.
bool IsBesideTraining(FaultPoint point) {
  return point == FaultPoint::kHeartbeat || point == FaultPoint::kJoin;
}

// "on 0I1.3" also means the I inside "0B1.3".
bool Names(const Action& named, const Action& running, FaultPoint point) {
  Action inner = running;
  if (running.kind == ActionKind::kBackward && point == FaultPoint::kBackwardInput) {
    inner.kind = ActionKind::kBackwardInput;
  }
  if (running.kind == ActionKind::kBackward && point == FaultPoint::kBackwardWeight) {
    inner.kind = ActionKind::kBackwardWeight;
  }
  return named == running || named == inner;
}

}  // namespace

FaultInjector::FaultInjector(const ExecutorOptions& options, ControlLink& control,
                             const Clock& clock)
    : worker_(options.worker),
      agent_pid_(options.agent_pid),
      launcher_pid_(options.launcher_pid),
      folder_(options.fault_folder),
      control_(control),
      clock_(clock) {
  for (std::size_t i = 0; i < options.faults.size(); ++i) {
    const Fault& fault = options.faults[i];
    const int index = static_cast<int>(i);
    if (!IsCarriedOutBy(fault, worker_, options.agent)) continue;
    if (std::filesystem::exists(StampPath(index))) continue;
    armed_.push_back({index, fault});
  }
}

void FaultInjector::SetLinkCutter(LinkCutter cutter) { link_cutter_ = std::move(cutter); }

bool FaultInjector::Due(const Fault& fault, FaultPoint point, int iteration,
                        const std::optional<Action>& action) const {
  if (fault.point != point) return false;
  if (fault.what == FaultKind::kDrop &&
      !(link_cutter_.has_link && link_cutter_.has_link(fault.target.other))) {
    return false;
  }
  if (fault.iteration.has_value()) {
    const bool is_met = IsBesideTraining(point) ? *fault.iteration <= iteration + 1
                                                : *fault.iteration == iteration + 1;
    if (!is_met) return false;
  }
  return !fault.action.has_value() || (action.has_value() && Names(*fault.action, *action, point));
}

void FaultInjector::At(FaultPoint point, int iteration, const std::optional<Action>& action) {
  std::vector<ArmedFault> due;
  {
    const std::lock_guard lock(mutex_);
    const auto first_due = std::stable_partition(
        armed_.begin(), armed_.end(),
        [&](const ArmedFault& armed) { return !Due(armed.fault, point, iteration, action); });
    due.assign(first_due, armed_.end());
    armed_.erase(first_due, armed_.end());
  }
  for (const ArmedFault& armed : due) {
    WriteStamp(armed, iteration);
    Fire(armed, iteration);
  }
}

bool FaultInjector::Armed(FaultPoint point) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(armed_.begin(), armed_.end(),
                     [&](const ArmedFault& armed) { return armed.fault.point == point; });
}

double FaultInjector::SlowFactor() const {
  const std::lock_guard lock(mutex_);
  if (slow_until_.has_value() && clock_.Now() >= *slow_until_) return 1.0;
  return slow_factor_;
}

void FaultInjector::ReportUnfired() {
  const std::lock_guard lock(mutex_);
  for (const ArmedFault& armed : armed_) {
    control_.Send(FaultReport{.index = armed.index, .fired = false, .iteration = 0});
  }
  armed_.clear();
}

std::string FaultInjector::StampPath(int index) const {
  return fmt::format("{}/fault-{}-{}-{}.json", folder_, index, worker_.pipeline.value(),
                     worker_.stage.value());
}

void FaultInjector::WriteStamp(const ArmedFault& armed, int iteration) const {
  const std::string path = StampPath(armed.index);
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary);
    file << fmt::format(R"({{"index":{},"worker":"{}","pid":{},"point":"{}","iteration":{},)"
                        R"("monotonic_ns":{},"unix_s":{:.6f}}})"
                        "\n",
                        armed.index, ToString(worker_), getpid(), PointText(armed.fault.point),
                        iteration + 1, clock_.Now().time_since_epoch().count(),
                        clock_.UnixSeconds());
    if (!file.flush()) LogWarning("fault {}: the stamp {} cannot be written", armed.index, path);
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) LogWarning("fault {}: the stamp {}: {}", armed.index, path, error.message());
}

void FaultInjector::Fire(const ArmedFault& armed, int iteration) {
  const Fault& fault = armed.fault;
  const bool hits_agent = fault.target.kind == TargetKind::kAgent;
  LogInfo("fault {} fires: {}", armed.index, ToString(fault));
  switch (fault.what) {
    case FaultKind::kKill:
      if (fault.target.kind == TargetKind::kAll && IsOfCheckpoint(fault.point)) {
        KillJob(launcher_pid_);
      } else {
        KillProcess(hits_agent ? agent_pid_ : getpid());
      }
      break;
    case FaultKind::kStop:
      StopProcess(hits_agent ? agent_pid_ : getpid(), fault.for_seconds);
      break;
    case FaultKind::kSlow:
      SlowDown(fault);
      break;
    case FaultKind::kDrop:
      link_cutter_.cut(fault.target.other);
      break;
    case FaultKind::kDiskFull:
      FailEveryFileWrite();
      break;
    case FaultKind::kCorrupt:
      corrupt_();
      break;
  }
  // Before Hello nobody listens, and an executor's first words must be its Hello: the stamp says
  // it.
  if (fault.point == FaultPoint::kStart) return;
  control_.Send(FaultReport{.index = armed.index, .fired = true, .iteration = iteration});
}

void FaultInjector::SlowDown(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  slow_factor_ = fault.factor;
  slow_until_.reset();
  if (fault.for_seconds.has_value()) {
    slow_until_ = clock_.Now() + std::chrono::duration_cast<Duration>(
                                     std::chrono::duration<double>(*fault.for_seconds));
  }
}

}  // namespace recycle
