#include "recycle/app/membership_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "recycle/app/event_writer.h"
#include "recycle/app/job_config.h"
#include "recycle/app/job_security.h"
#include "recycle/app/report_error.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/status.h"
#include "recycle/base/ids.h"
#include "recycle/rpc/status_client.h"

namespace recycle {
namespace {

constexpr std::chrono::seconds kTimeout{2};
constexpr std::chrono::milliseconds kPollInterval{50};

struct RunningJob {
  CoordinatorAccess access;
  std::vector<std::string> live;
};

StatusOr<RunningJob> Look(const std::string& run_dir) {
  RunningJob job;
  RC_ASSIGN_OR_RETURN(job.access, AccessOfRun(run_dir));
  RC_ASSIGN_OR_RETURN(const std::string text,
                      FetchStatus(job.access.address, job.access.security, kTimeout));
  const Json status = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status.is_discarded()) {
    return absl::UnavailableError(
        fmt::format("{} answers, but not as a coordinator", job.access.address));
  }
  job.live = status.at("live").get<std::vector<std::string>>();
  return job;
}

bool IsLive(const RunningJob& job, const std::string& worker) {
  return std::find(job.live.begin(), job.live.end(), worker) != job.live.end();
}

// The place that `arguments` name, which the job has.
StatusOr<WorkerId> PlaceOf(const PlaceArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker, ParseWorkerId(arguments.worker));
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(arguments.run_dir));
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
  const int last_pipeline = config.parallel.data - 1;
  const int last_stage = config.parallel.pipeline - 1;
  if (worker.pipeline.value() <= last_pipeline && worker.stage.value() <= last_stage) return worker;
  return absl::InvalidArgumentError(fmt::format(
      "there is no worker {}; pipelines are 0 to {}, stages 0 to {}, so that the "
      "nearest valid choice is {}:{}",
      ToString(worker), last_pipeline, last_stage, std::min(worker.pipeline.value(), last_pipeline),
      std::min(worker.stage.value(), last_stage)));
}

Status MayJoin(const PlaceArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker, PlaceOf(arguments));
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(arguments.run_dir));
  if (!arguments.listen.empty()) {
    RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
    RC_RETURN_IF_ERROR(CheckListenHere(config, "--listen", arguments.listen));
  }
  RC_ASSIGN_OR_RETURN(const RunningJob job, Look(arguments.run_dir));
  if (IsLive(job, ToString(worker))) {
    return absl::InvalidArgumentError(fmt::format(
        "worker {} lives; only a place without a worker can be joined", ToString(worker)));
  }
  std::cout
      << fmt::format(
             "joining as worker {}: the job's lines and `recycle status` say when it is back; "
             "this process's log: {}",
             ToString(worker), folder.ExecutorLog(worker))
      << std::endl;
  return OkStatus();
}

Status AskToDrain(const PlaceArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker, PlaceOf(arguments));
  const std::string name = ToString(worker);
  RC_ASSIGN_OR_RETURN(const RunningJob job, Look(arguments.run_dir));
  if (!IsLive(job, name)) {
    return absl::InvalidArgumentError(
        fmt::format("worker {} does not live; those that do: {}", name, fmt::join(job.live, " ")));
  }
  const auto of_stage = [&](const std::string& other) {
    const StatusOr<WorkerId> id = ParseWorkerId(other);
    return id.ok() && id->stage == worker.stage;
  };
  if (std::count_if(job.live.begin(), job.live.end(), of_stage) == 1) {
    return absl::FailedPreconditionError(
        fmt::format("worker {} is the last live one of stage {}: the job needs it", name,
                    worker.stage.value()));
  }
  RC_RETURN_IF_ERROR(RequestDrain(job.access.address, job.access.security, worker, kTimeout));
  for (;;) {
    const StatusOr<RunningJob> later = Look(arguments.run_dir);
    // Over meanwhile: it has left with everybody else.
    if (!later.ok() || !IsLive(*later, name)) break;
    std::this_thread::sleep_for(kPollInterval);
  }
  std::cout << fmt::format("worker {} has left", name) << std::endl;
  return OkStatus();
}

}  // namespace

int RunJoin(const PlaceArguments& arguments) {
  if (const Status may = MayJoin(arguments); !may.ok()) return ReportError(may);
  // No agent owns it: faults that hit agents are none of its business.
  ExecutorArguments executor{
      {"--run-dir", arguments.run_dir, "--worker", arguments.worker, "--agent=-1"}};
  if (!arguments.listen.empty()) {
    executor.arguments.insert(executor.arguments.end(), {"--listen", arguments.listen});
  }
  return RunExecutorProcess(executor);
}

int RunDrain(const PlaceArguments& arguments) { return ReportError(AskToDrain(arguments)); }

}  // namespace recycle
