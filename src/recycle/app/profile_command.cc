#include "recycle/app/profile_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "recycle/app/commands.h"
#include "recycle/app/dry_run.h"
#include "recycle/app/job_config.h"
#include "recycle/app/job_conversion.h"
#include "recycle/app/profile_samples.h"
#include "recycle/app/profile_text.h"
#include "recycle/app/report_error.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/exit_code.h"
#include "recycle/base/file.h"
#include "recycle/plan/timeline.h"

namespace recycle {
namespace {

// While it lives, what goes to standard output goes to standard error.
class StandardOutputAside {
 public:
  StandardOutputAside() : saved_(dup(STDOUT_FILENO)) {
    std::cout.flush();
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~StandardOutputAside() {
    std::cout.flush();
    dup2(saved_, STDOUT_FILENO);
    close(saved_);
  }
  StandardOutputAside(const StandardOutputAside&) = delete;
  StandardOutputAside& operator=(const StandardOutputAside&) = delete;

 private:
  const int saved_;
};

// The job's keys, and those that a profile decides.
std::vector<std::string> Overrides(const ProfileArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  overrides.push_back(fmt::format("train.iterations={}", arguments.iterations));
  for (const char* decided : {"device.kind=cpu", "train.validate_every=0", "checkpoint.every=0",
                              "resilience.snapshot_every=0", "schedule.measure=false",
                              "log.trace=true", "log.profile=true", "inject=[]"}) {
    overrides.emplace_back(decided);
  }
  return overrides;
}

Status CheckUndisturbed(const RunFolder& folder) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(folder.Summary()));
  const nlohmann::json summary = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (summary.is_object() && summary.value("failures", -1) == 0) return OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "a worker died in the run, so its times are no profile; events.jsonl in '{}' says why",
      folder.root()));
}

// What the schedule that was run takes per iteration with the measured costs.
StatusOr<double> PlannedMs(const JobConfig& config, const CostProfile& costs) {
  RC_ASSIGN_OR_RETURN(Plan plan, FirstPlan(config));
  plan.costs = costs;
  RC_ASSIGN_OR_RETURN(const PlanFigures figures, ComputeFigures(plan));
  return ToUnits(figures.period);
}

Status Report(const ProfileArguments& arguments, const JobConfig& config,
              const std::string& run_dir) {
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(run_dir));
  RC_RETURN_IF_ERROR(CheckUndisturbed(folder));
  const Parallelism parallel = ParallelismOf(config);
  RC_ASSIGN_OR_RETURN(const ProfileSamples samples,
                      ReadProfileSamples(folder, LiveWorkers(parallel, /*failed=*/{})));
  RC_ASSIGN_OR_RETURN(
      const ProfileReport report,
      MakeProfileReport(samples, parallel.num_stages(), WarmUpIterations(arguments.iterations)));
  RC_ASSIGN_OR_RETURN(const CostProfile costs, CostsOf(report));
  RC_ASSIGN_OR_RETURN(const double planned_ms, PlannedMs(config, costs));
  const std::string json = ProfileAsJson(report, costs, planned_ms);
  if (!arguments.output.empty()) RC_RETURN_IF_ERROR(WriteFileAtomically(arguments.output, json));
  std::cout << (arguments.json ? json : ProfileAsText(report, planned_ms));
  if (!arguments.json && !arguments.output.empty()) {
    std::cout << fmt::format("costs are in {0}; look next: recycle plan --profile {0} ...\n",
                             arguments.output);
  }
  std::cout << std::flush;
  return OkStatus();
}

StatusOr<int> Profile(const ProfileArguments& arguments) {
  const std::vector<std::string> overrides = Overrides(arguments);
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(arguments.config_path, overrides));
  std::string run_dir = arguments.run_dir;
  if (run_dir.empty()) {
    RC_ASSIGN_OR_RETURN(run_dir, MakeTemporaryFolder("profile"));
  }
  TrainArguments train;
  train.config_path = arguments.config_path;
  train.overrides = overrides;
  train.run_dir = run_dir;
  int code = 0;
  {
    const StandardOutputAside aside;
    code = RunTrain(train);
  }
  if (code != static_cast<int>(ExitCode::kDone)) return code;
  RC_RETURN_IF_ERROR(Report(arguments, config, run_dir));
  if (arguments.run_dir.empty()) std::filesystem::remove_all(run_dir);
  return code;
}

}  // namespace

int WarmUpIterations(int iterations) { return std::clamp(iterations / 10, 2, 10); }

int RunProfile(const ProfileArguments& arguments) {
  const StatusOr<int> code = Profile(arguments);
  return code.ok() ? *code : ReportError(code.status());
}

}  // namespace recycle
