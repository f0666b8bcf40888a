#include "recycle/app/status.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <utility>
#include <vector>

#include "recycle/app/commands.h"
#include "recycle/app/job_config.h"
#include "recycle/app/job_security.h"
#include "recycle/app/leader_address.h"
#include "recycle/app/report_error.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/training_progress.h"
#include "recycle/rpc/status_client.h"

namespace recycle {
namespace {

constexpr std::chrono::seconds kStatusTimeout{2};

StatusOr<CoordinatorAccess> AccessOf(const StatusArguments& arguments) {
  if (arguments.address.empty()) return AccessOfRun(arguments.run_dir);
  CoordinatorAccess access{.address = arguments.address, .security = {}};
  if (arguments.job.empty()) return access;
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(arguments.job));
  RC_ASSIGN_OR_RETURN(access.security, LoadSecurity(config));
  return access;
}

Status ShowStatus(const StatusArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const CoordinatorAccess access, AccessOf(arguments));
  RC_ASSIGN_OR_RETURN(const std::string text,
                      FetchStatus(access.address, access.security, kStatusTimeout));
  if (arguments.json) {
    std::cout << text << std::endl;
    return OkStatus();
  }
  const Json status = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status.is_discarded()) {
    return absl::UnavailableError(
        fmt::format("{} answers, but not as a coordinator", access.address));
  }
  std::cout << StatusText(status) << std::flush;
  return OkStatus();
}

}  // namespace

StatusOr<CoordinatorAccess> AccessOfRun(const std::string& run_dir) {
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(run_dir));
  RC_ASSIGN_OR_RETURN(const LeaderAddress leader, ReadLeaderAddress(folder));
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
  RC_ASSIGN_OR_RETURN(RpcSecurity security, LoadSecurity(config));
  return CoordinatorAccess{.address = leader.address, .security = std::move(security)};
}

std::string StatusText(const Json& status) {
  const auto live = status.at("live").get<std::vector<std::string>>();
  const auto joining = status.at("joining").get<std::vector<std::string>>();
  const std::string loss =
      status.at("loss").is_null() ? "-" : fmt::format("{:.4f}", status.at("loss").get<double>());
  return fmt::format(
      "phase       {}\n"
      "iteration   {} of {}\n"
      "loss        {}\n"
      "speed       {} tokens/s, {:.1f} ms an iteration\n"
      "workers     {} of {} live: {}{}\n"
      "failures    {}\n"
      "generation  {}: {}\n"
      "run folder  {}\n",
      status.at("phase").get<std::string>(), status.at("iteration").get<int>(),
      status.at("iterations").get<int>(), loss,
      WithThousands(status.at("tokens_per_s").get<double>()),
      status.at("iteration_ms").get<double>(), live.size(), status.at("workers").get<int>(),
      fmt::join(live, " "),
      joining.empty() ? "" : fmt::format("; coming back: {}", fmt::join(joining, " ")),
      status.at("failures").get<int>(), status.at("generation").get<std::int64_t>(),
      status.at("reason").get<std::string>(), status.at("run_dir").get<std::string>());
}

int RunStatus(const StatusArguments& arguments) { return ReportError(ShowStatus(arguments)); }

}  // namespace recycle
