#include "recycle/app/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "recycle/app/child_process.h"
#include "recycle/app/commands.h"
#include "recycle/app/executor_setup.h"
#include "recycle/app/report_error.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/spawner.h"
#include "recycle/base/log.h"
#include "recycle/rpc/agent_client.h"

namespace recycle {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};

struct SpawnerLines {
  int commands = -1;  // to the spawner
  int reports = -1;   // from the spawner
};

StatusOr<SpawnerLines> StartSpawner(const AgentArguments& arguments, const RunFolder& folder) {
  int commands[2];
  int reports[2];
  if (pipe2(commands, O_CLOEXEC) != 0 || pipe2(reports, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError("no pipe for the spawner");
  }
  ChildOptions child;
  child.argv = {ProgramFolder() + "/recycle-executor",
                "spawn",
                "--run-dir",
                folder.root(),
                "--address",
                arguments.address,
                "--agent",
                std::to_string(arguments.agent),
                "--command-fd",
                std::to_string(commands[0]),
                "--report-fd",
                std::to_string(reports[1])};
  child.inherited = {commands[0], reports[1]};
  child.environment = OneThreadEnvironment();
  child.output_file = folder.Log(fmt::format("spawner-{}", arguments.agent));
  const StatusOr<pid_t> pid = StartChild(child);
  close(commands[0]);
  close(reports[1]);
  if (!pid.ok()) return pid.status();
  return SpawnerLines{.commands = commands[1], .reports = reports[0]};
}

void PassOn(const std::string& line, AgentClient& coordinator) {
  const StatusOr<SpawnerReport> report = ParseSpawnerReport(line);
  if (!report.ok()) {
    LogError("{}", std::string(report.status().message()));
    return;
  }
  if (!report->wait_status) {
    LogInfo("executor {} started, pid {}", ToString(report->worker), report->pid);
    return;
  }
  coordinator.Send(ExecutorExited{
      .worker = report->worker, .pid = report->pid, .wait_status = *report->wait_status});
  LogInfo("executor {} (pid {}) ended: {}", ToString(report->worker), report->pid,
          DescribeWaitStatus(*report->wait_status));
}

// Until the spawner is gone.
void ServeSpawner(int reports, AgentClient& coordinator) {
  LineSplitter lines;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(reports, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    lines.Feed({buffer, static_cast<std::size_t>(count)},
               [&](const std::string& line) { PassOn(line, coordinator); });
  }
}

Status ServeAgent(const AgentArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(arguments.run_dir));
  InitLog(fmt::format("agent {}", arguments.agent),
          folder.Log(fmt::format("agent-{}", arguments.agent)));
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
  // The spawner first: this process has one thread until gRPC is touched.
  RC_ASSIGN_OR_RETURN(const SpawnerLines spawner, StartSpawner(arguments, folder));
  for (const WorkerId worker : WorkersOfAgent(config, arguments.agent)) {
    WriteAll(spawner.commands, "start " + ToString(worker) + "\n");
  }
  RC_ASSIGN_OR_RETURN(
      const std::unique_ptr<AgentClient> coordinator,
      AgentClient::Connect(arguments.address, AgentHello{.agent = arguments.agent, .pid = getpid()},
                           kConnectTimeout));
  ServeSpawner(spawner.reports, *coordinator);
  return absl::UnavailableError(
      fmt::format("the spawner of agent {} ended; its log is {}", arguments.agent,
                  folder.Log(fmt::format("spawner-{}", arguments.agent))));
}

}  // namespace

std::vector<WorkerId> WorkersOfAgent(const JobConfig& config, int agent) {
  std::vector<WorkerId> workers;
  for (int pipeline = agent; pipeline < config.parallel.data; pipeline += config.launch.agents) {
    for (int stage = 0; stage < config.parallel.pipeline; ++stage) {
      workers.push_back(WorkerId{PipelineId(pipeline), StageId(stage)});
    }
  }
  return workers;
}

int RunAgent(const AgentArguments& arguments) {
  const Status status = ServeAgent(arguments);
  LogError("{}", std::string(status.message()));
  return ReportError(status);
}

}  // namespace recycle
