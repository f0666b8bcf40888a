#include "recycle/app/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "recycle/app/agent_link.h"
#include "recycle/app/child_process.h"
#include "recycle/app/commands.h"
#include "recycle/app/executor_setup.h"
#include "recycle/app/fault_ledger.h"
#include "recycle/app/job_security.h"
#include "recycle/app/open_files.h"
#include "recycle/app/report_error.h"
#include "recycle/app/respawn.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/spawner.h"
#include "recycle/base/index.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

// How often the agent looks whether another coordinator leads.
constexpr std::int64_t kLookIntervalMs = 200;
// An agent that has no coordinator for so long takes the job for dead. No launcher need be there
// to end it.
constexpr std::chrono::minutes kAgentPatience{10};

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
                "--agent",
                std::to_string(arguments.agent),
                "--command-fd",
                std::to_string(commands[0]),
                "--report-fd",
                std::to_string(reports[1])};
  if (!arguments.listen.empty()) {
    child.argv.insert(child.argv.end(), {"--listen", arguments.listen});
  }
  child.inherited = {commands[0], reports[1]};
  child.environment = OneThreadEnvironment();
  child.output_file = folder.Log(fmt::format("spawner-{}", arguments.agent));
  const StatusOr<pid_t> pid = StartChild(child);
  close(commands[0]);
  close(reports[1]);
  if (!pid.ok()) return pid.status();
  return SpawnerLines{.commands = commands[1], .reports = reports[0]};
}

// A line to the spawner, short enough to be one write: from any thread.
void Command(const SpawnerLines& spawner, std::string_view word, WorkerId worker) {
  WriteAll(spawner.commands, fmt::format("{} {}\n", word, ToString(worker)));
}

// Between the spawner and the coordinator, until the job is over or the spawner gone.
class AgentLoop {
 public:
  AgentLoop(const SpawnerLines& spawner, AgentLink& coordinator, std::optional<Duration> respawn,
            FaultLedger faults)
      : spawner_(spawner),
        coordinator_(coordinator),
        respawns_(respawn),
        faults_(std::move(faults)) {}

  // OK: the job is over. kUnavailable: no coordinator for too long. kInternal: the spawner ended.
  Status Run();

 private:
  int TimeoutMs() const;
  void OnReport(const std::string& line);
  void OnExit(const SpawnerReport& report);
  std::optional<Duration> TakeRejoin(WorkerId worker);

  const SpawnerLines spawner_;
  AgentLink& coordinator_;
  Respawns respawns_;
  FaultLedger faults_;
  std::set<int> rejoins_taken_;  // faults
};

void AgentLoop::OnReport(const std::string& line) {
  const StatusOr<SpawnerReport> report = ParseSpawnerReport(line);
  if (!report.ok()) {
    LogError("{}", std::string(report.status().message()));
    return;
  }
  if (!report->wait_status) {
    LogInfo("executor {} started, pid {}", ToString(report->worker), report->pid);
    return;
  }
  OnExit(*report);
}

void AgentLoop::OnExit(const SpawnerReport& report) {
  coordinator_.Send(ExecutorExited{
      .worker = report.worker, .pid = report.pid, .wait_status = *report.wait_status});
  LogInfo("executor {} (pid {}) ended: {}", ToString(report.worker), report.pid,
          DescribeWaitStatus(*report.wait_status));
  const TimePoint now = SystemClock().Now();
  if (const std::optional<Duration> rejoin = TakeRejoin(report.worker)) {
    respawns_.StartAt(report.worker, now + *rejoin);
    return;
  }
  const Respawns::Verdict verdict = respawns_.OnExit(report.worker, *report.wait_status, now);
  if (verdict.after) {
    LogInfo("executor {} is started anew in {:.1f} s", ToString(report.worker),
            ToMilliseconds(*verdict.after) / 1000);
  }
  if (verdict.parked) {
    LogWarning("executor {} has died {} times and is parked", ToString(report.worker),
               verdict.deaths);
    coordinator_.Send(Parked{.worker = report.worker, .deaths = verdict.deaths});
  }
}

// Was it a fault that has it come back? Its death is reported by now.
std::optional<Duration> AgentLoop::TakeRejoin(WorkerId worker) {
  faults_.TakeNew();
  const std::optional<FaultStamp> stamp = faults_.LethalTo(worker);
  if (!stamp) return std::nullopt;
  const std::optional<double> seconds = faults_.faults()[Index(stamp->fault)].rejoin_after_seconds;
  if (!seconds || !rejoins_taken_.insert(stamp->fault).second) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
}

int AgentLoop::TimeoutMs() const {
  const std::optional<TimePoint> due = respawns_.NextDeadline();
  if (!due) return static_cast<int>(kLookIntervalMs);
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*due - SystemClock().Now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLookIntervalMs));
}

Status AgentLoop::Run() {
  LineSplitter lines;
  char buffer[4096];
  for (;;) {
    coordinator_.FollowLeader();
    if (coordinator_.is_job_over()) return OkStatus();
    if (coordinator_.alone_for() > kAgentPatience) {
      return absl::UnavailableError(
          fmt::format("no coordinator for {} minutes", kAgentPatience.count()));
    }
    for (const WorkerId worker : respawns_.TakeDue(SystemClock().Now())) {
      Command(spawner_, "start", worker);
    }
    pollfd ready[] = {{spawner_.reports, POLLIN, 0}};
    if (poll(ready, 1, TimeoutMs()) <= 0) continue;
    const ssize_t count = read(spawner_.reports, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::InternalError("the spawner ended");
    lines.Feed({buffer, static_cast<std::size_t>(count)},
               [this](const std::string& line) { OnReport(line); });
  }
}

std::optional<Duration> RespawnDelay(const JobConfig& config) {
  if (!config.resilience.respawn_s) return std::nullopt;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(*config.resilience.respawn_s));
}

Status CheckAgentArguments(const AgentArguments& arguments, const JobConfig& config) {
  const int last = config.launch.agents - 1;
  if (arguments.agent > last) {
    return absl::InvalidArgumentError(fmt::format(
        "there is no agent {}; launch.agents is {}, so that the nearest valid choice is "
        "{}",
        arguments.agent, config.launch.agents, last));
  }
  if (arguments.listen.empty()) return OkStatus();
  return CheckListenHere(config, "--listen", arguments.listen);
}

Status ServeAgent(const AgentArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(arguments.run_dir));
  InitLog(fmt::format("agent {}", arguments.agent),
          folder.Log(fmt::format("agent-{}", arguments.agent)));
  RC_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(folder.Config()));
  RC_RETURN_IF_ERROR(CheckAgentArguments(arguments, config));
  RC_RETURN_IF_ERROR(RaiseOpenFileLimit(config.parallel.data * config.parallel.pipeline));
  // The spawner first: this process has one thread until gRPC is touched.
  RC_ASSIGN_OR_RETURN(const SpawnerLines spawner, StartSpawner(arguments, folder));
  for (const WorkerId worker : WorkersOfAgent(config, arguments.agent)) {
    Command(spawner, "start", worker);
  }
  AgentLink coordinator(
      folder, config, AgentHello{.agent = arguments.agent, .pid = getpid()},
      [&](const StartExecutor& command) { Command(spawner, "restart", command.worker); });
  FaultLedger faults(config.inject, folder, config.launch.agents);
  const Status end = AgentLoop(spawner, coordinator, RespawnDelay(config), std::move(faults)).Run();
  if (end.code() != StatusCode::kInternal) return end;
  return absl::UnavailableError(
      fmt::format("the spawner of agent {} ended; its log is {}", arguments.agent,
                  folder.Log(fmt::format("spawner-{}", arguments.agent))));
}

}  // namespace

int AgentOf(WorkerId worker, int agents) { return worker.pipeline.value() % agents; }

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
  if (!status.ok()) LogError("{}", std::string(status.message()));
  return ReportError(status);
}

}  // namespace recycle
