#include "recycle/app/coordinator_fault.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "recycle/base/check.h"
#include "recycle/base/file.h"
#include "recycle/base/log.h"

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

}  // namespace recycle
