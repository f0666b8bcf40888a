// recycle-executor: the one program that links libtorch.
//
//   recycle-executor spawn --run-dir DIR --agent N --command-fd N --report-fd N [--listen ADDRESS]
//   recycle-executor run --worker K:I --run-dir DIR [--agent N] [--listen ADDRESS]
//
// `spawn` serves an agent (spawner.h); `run` is one executor by itself.
#include <ATen/core/ivalue.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "recycle/app/agent.h"
#include "recycle/app/child_process.h"
#include "recycle/app/executor_setup.h"
#include "recycle/app/job_config.h"
#include "recycle/app/lasting_control_link.h"
#include "recycle/app/report_error.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/spawner.h"
#include "recycle/base/log.h"
#include "recycle/executor/executor.h"
#include "recycle/executor/pacer.h"

namespace recycle {
namespace {

// How long an executor that no agent owns looks for a coordinator. Others end with their agent.
constexpr std::chrono::seconds kFirstPatience{10};
constexpr std::chrono::minutes kLaterPatience{1};

struct Arguments {
  std::string run_dir;
  std::string worker;
  int agent = 0;
  std::string listen;
  SpawnerOptions spawner;
};

// Runs one executor to its end in this process. `config` is the run's.
StatusOr<ExecutorEnd> Execute(const JobConfig& config, const RunFolder& folder, WorkerId worker,
                              const ExecutorHome& home) {
  RC_ASSIGN_OR_RETURN(const ExecutorOptions options,
                      ExecutorOptionsOf(config, folder, worker, home));
  if (options.pace) {
    PreparePacedProcess(worker.pipeline.value() * options.parallel.pipeline + worker.stage.value());
  }
  const bool is_owned = home.agent >= 0;
  LastingControlLink link(folder, config,
                          is_owned ? std::nullopt : std::optional<Duration>(kLaterPatience));
  RC_RETURN_IF_ERROR(
      link.Connect(is_owned ? std::nullopt : std::optional<Duration>(kFirstPatience)));
  return RunExecutor(options, link, SystemClock());
}

// The same with its own log.
PlaceEnd ExecuteAndReport(const JobConfig& config, const RunFolder& folder, WorkerId worker,
                          const ExecutorHome& home) {
  const std::string log = folder.ExecutorLog(worker);
  RedirectOutput(log);
  InitLog(fmt::format("executor {}", ToString(worker)), log);
  const StatusOr<ExecutorEnd> end = Execute(config, folder, worker, home);
  if (!end.ok()) {
    LogError("{}", std::string(end.status().message()));
    return {.exit_code = static_cast<int>(ExitCodeOf(end.status())), .next = {}};
  }
  if (end->next) {
    LogInfo("becomes worker {}", ToString(*end->next));
  } else {
    LogInfo("leaves with exit code {}", static_cast<int>(end->code));
  }
  return {.exit_code = static_cast<int>(end->code), .next = end->next};
}

// Loads what an executor needs before it is forked, so that all share it.
void WarmUp() {
  const at::Tensor ones = at::ones({16, 16});
  at::mm(ones, ones);
}

StatusOr<int> Spawn(const Arguments& arguments) {
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(arguments.run_dir));
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
  WarmUp();
  // An agent that was started by hand has no launcher, but a shell.
  const ExecutorHome home{.agent = arguments.agent,
                          .agent_pid = getppid(),
                          .launcher_pid = config.launch.start_agents ? ParentOf(getppid()) : 0,
                          .listen = arguments.listen};
  return RunSpawner(arguments.spawner, [&](WorkerId worker) {
    return ExecuteAndReport(config, folder, worker, home);
  });
}

StatusOr<int> RunOne(const Arguments& arguments) {
  RC_ASSIGN_OR_RETURN(const WorkerId worker, ParseWorkerId(arguments.worker));
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(arguments.run_dir));
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
  if (worker.pipeline.value() >= config.parallel.data ||
      worker.stage.value() >= config.parallel.pipeline) {
    return absl::InvalidArgumentError(
        fmt::format("--worker {}: the job has pipelines 0 to {} and stages 0 to {}",
                    arguments.worker, config.parallel.data - 1, config.parallel.pipeline - 1));
  }
  const ExecutorHome home{.agent = arguments.agent,
                          .agent_pid = getppid(),
                          .launcher_pid = 0,
                          .listen = arguments.listen};
  PlaceEnd end{.exit_code = 0, .next = worker};
  while (end.next) end = ExecuteAndReport(config, folder, *end.next, home);
  return end.exit_code;
}

// Starts over with one thread per library, unless the environment says so already.
void EnsureOneThread(char** argv) {
  bool changed = false;
  for (const auto& [name, value] : OneThreadEnvironment()) {
    const char* const present = getenv(name.c_str());
    changed = changed || present == nullptr || value != present;
    setenv(name.c_str(), value.c_str(), 1);
  }
  if (changed) execv("/proc/self/exe", argv);
}

int Main(int argc, char** argv) {
  EnsureOneThread(argv);
  Arguments arguments;
  CLI::App program("one worker of a ReCycle job; `recycle train` starts it");
  program.require_subcommand(1);
  CLI::App* const spawn = program.add_subcommand("spawn", "fork executors for an agent");
  CLI::App* const run = program.add_subcommand("run", "run one executor");
  for (CLI::App* const command : {spawn, run}) {
    command->add_option("--run-dir", arguments.run_dir, "folder of the run")->required();
    command->add_option("--agent", arguments.agent, "number of the agent it belongs to");
    command->add_option("--listen", arguments.listen,
                        "numeric address of this machine; default: launch.listen");
  }
  spawn->add_option("--command-fd", arguments.spawner.command_fd)->required();
  spawn->add_option("--report-fd", arguments.spawner.report_fd)->required();
  run->add_option("--worker", arguments.worker, "place in the job, PIPELINE:STAGE")->required();
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = program.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  const StatusOr<int> code = spawn->parsed() ? Spawn(arguments) : RunOne(arguments);
  return code.ok() ? *code : ReportError(code.status());
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) {
  // Without destructors: those of libtorch's statics take long and have nothing to save.
  const int code = recycle::Main(argc, argv);
  std::cout.flush();
  _exit(code);
}
