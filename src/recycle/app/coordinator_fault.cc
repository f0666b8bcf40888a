#include "recycle/app/coordinator_fault.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "recycle/app/store_outage.h"
#include "recycle/base/check.h"
#include "recycle/base/file.h"
#include "recycle/base/log.h"
#include "recycle/base/process_fault.h"

namespace recycle {
namespace {

std::string StampPath(const RunFolder& folder, int index) {
  return folder.FaultFolder() + fmt::format("/fault-{}-coordinator.json", index);
}

FaultPoint ToFaultPoint(CommitPoint point) {
  switch (point) {
    case CommitPoint::kBeforeManifest:
      return FaultPoint::kCheckpointManifest;
    case CommitPoint::kBeforeMarker:
      return FaultPoint::kCheckpointMarker;
    case CommitPoint::kBeforeLatest:
      return FaultPoint::kCheckpointLatest;
    case CommitPoint::kBeforePrune:
      return FaultPoint::kCheckpointPrune;
  }
  RC_CHECK(false) << "commit point " << static_cast<int>(point);
  return FaultPoint::kCheckpoint;
}

// Where a coordinator meets a fault that is written for `point`.
FaultPoint MetAt(FaultPoint point) {
  const bool is_own =
      point == FaultPoint::kStart || point == FaultPoint::kStore || point == FaultPoint::kRegroup;
  return is_own ? point : FaultPoint::kStep;
}

}  // namespace

Status WriteCoordinatorStamp(const RunFolder& folder, const Clock& clock, int index,
                             int iteration) {
  nlohmann::ordered_json stamp;
  stamp["index"] = index;
  stamp["worker"] = "coordinator";
  stamp["pid"] = getpid();
  stamp["iteration"] = iteration;
  stamp["monotonic_ns"] = clock.Now().time_since_epoch().count();
  stamp["unix_s"] = clock.UnixSeconds();
  return WriteFileAtomically(StampPath(folder, index), stamp.dump() + "\n");
}

void FireCommitFault(const std::vector<Fault>& faults, const RunFolder& folder, const Clock& clock,
                     bool has_launcher, CommitPoint point, int iteration) {
  for (int index = 0; index < static_cast<int>(faults.size()); ++index) {
    const Fault& fault = faults[static_cast<std::size_t>(index)];
    const bool is_due = fault.point == ToFaultPoint(point) &&
                        fault.iteration.value_or(iteration) == iteration &&
                        !std::filesystem::exists(StampPath(folder, index));
    if (!is_due) continue;
    const Status written = WriteCoordinatorStamp(folder, clock, index, iteration);
    if (!written.ok()) LogWarning("{}", std::string(written.message()));
    LogInfo("fault {} fires: {}", index, ToString(fault));
    kill(has_launcher ? getppid() : getpid(), SIGKILL);
    for (;;) pause();
  }
}

CoordinatorFaults::CoordinatorFaults(const std::vector<Fault>& faults, const RunFolder& folder,
                                     const Clock& clock)
    : folder_(folder), clock_(clock) {
  for (int index = 0; index < static_cast<int>(faults.size()); ++index) {
    const Fault& fault = faults[static_cast<std::size_t>(index)];
    if (!IsOfCoordinator(fault)) continue;
    if (std::filesystem::exists(StampPath(folder, index))) continue;
    armed_.push_back({index, fault});
  }
}

bool CoordinatorFaults::At(FaultPoint point, int iteration) {
  std::vector<ArmedFault> due;
  std::erase_if(armed_, [&](const ArmedFault& armed) {
    const Fault& fault = armed.fault;
    if (MetAt(fault.point) != point || fault.iteration.value_or(1) > iteration) return false;
    due.push_back(armed);
    return true;
  });
  for (const ArmedFault& armed : due) Fire(armed, iteration);
  return !due.empty();
}

void CoordinatorFaults::Fire(const ArmedFault& armed, int iteration) const {
  const Status written = WriteCoordinatorStamp(folder_, clock_, armed.index, iteration);
  if (!written.ok()) LogWarning("{}", std::string(written.message()));
  LogInfo("fault {} fires: {}", armed.index, ToString(armed.fault));
  if (armed.fault.target.kind == TargetKind::kStore) {
    const Status begun = BeginStoreOutage(
        folder_, clock_.UnixSeconds() + armed.fault.for_seconds.value_or(0));  // the parser asks
    if (!begun.ok()) LogWarning("{}", std::string(begun.message()));
    return;
  }
  switch (armed.fault.what) {
    case FaultKind::kKill:
      KillProcess(getpid());
      return;
    case FaultKind::kStop:
      StopProcess(getpid(), armed.fault.for_seconds);
      return;
    case FaultKind::kDiskFull:
      FailEveryFileWrite();
      return;
    case FaultKind::kSlow:
    case FaultKind::kDrop:
    case FaultKind::kCorrupt:
      break;
  }
  RC_CHECK(false) << "the parser of faults refuses " << ToString(armed.fault);
}

}  // namespace recycle
