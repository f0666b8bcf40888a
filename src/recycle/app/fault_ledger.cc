#include "recycle/app/fault_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "recycle/app/agent.h"
#include "recycle/base/file.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

StatusOr<FaultStamp> ReadStamp(const std::string& path, std::size_t num_faults) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    FaultStamp stamp;
    stamp.fault = json.at("index");
    const std::string worker = json.at("worker");
    if (worker != "coordinator") {
      RC_ASSIGN_OR_RETURN(stamp.worker, ParseWorkerId(worker));
    }
    stamp.iteration = json.at("iteration");
    stamp.time = TimePoint(Duration(json.at("monotonic_ns").get<std::int64_t>()));
    stamp.unix_s = json.at("unix_s");
    if (stamp.fault < 0 || stamp.fault >= static_cast<int>(num_faults)) {
      return absl::DataLossError(
          fmt::format("index {} of a job with {} faults", stamp.fault, num_faults));
    }
    return stamp;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(error.what());
  }
}

}  // namespace

Status ForgetOldFaults(const JobConfig& config, const RunFolder& folder) {
  RC_ASSIGN_OR_RETURN(const JobConfig before, LoadJobConfig(folder.Config()));
  if (before.inject == config.inject) return OkStatus();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.FaultFolder(), error)) {
    std::filesystem::remove(entry.path(), error);
  }
  if (!error) return OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("'{}' cannot be emptied: {}", folder.FaultFolder(), error.message()));
}

FaultLedger::FaultLedger(std::vector<Fault> faults, const RunFolder& folder, int agents)
    : faults_(std::move(faults)), folder_(folder.FaultFolder()), agents_(agents) {}

std::vector<FaultStamp> FaultLedger::TakeNew() {
  std::vector<FaultStamp> found;
  if (faults_.empty()) return found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".json" || !seen_files_.insert(path).second) continue;
    StatusOr<FaultStamp> stamp = ReadStamp(path, faults_.size());
    if (stamp.ok()) {
      found.push_back(*std::move(stamp));
    } else {
      LogWarning("the fault stamp {} is damaged: {}", path, std::string(stamp.status().message()));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const FaultStamp& a, const FaultStamp& b) { return a.time < b.time; });
  stamps_.insert(stamps_.end(), found.begin(), found.end());
  return found;
}

std::optional<FaultStamp> FaultLedger::LethalTo(WorkerId worker) const {
  std::optional<FaultStamp> latest;
  for (const FaultStamp& stamp : stamps_) {
    if (Ends(stamp, worker) && (!latest || stamp.time > latest->time)) latest = stamp;
  }
  return latest;
}

bool FaultLedger::Ends(const FaultStamp& stamp, WorkerId worker) const {
  const Fault& fault = faults_[static_cast<std::size_t>(stamp.fault)];
  if (fault.what != FaultKind::kKill && fault.what != FaultKind::kStop) return false;
  if (fault.target.kind == TargetKind::kAgent)
    return AgentOf(worker, agents_) == fault.target.index;
  return stamp.worker == worker;
}

std::vector<int> FaultLedger::Missed() const {
  std::vector<int> missed;
  for (int index = 0; index < static_cast<int>(faults_.size()); ++index) {
    const bool fired = std::any_of(stamps_.begin(), stamps_.end(),
                                   [&](const FaultStamp& stamp) { return stamp.fault == index; });
    if (!fired) missed.push_back(index);
  }
  return missed;
}

}  // namespace recycle
