#include "recycle/app/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "recycle/app/checkpoint_identity.h"
#include "recycle/app/child_process.h"
#include "recycle/app/commands.h"
#include "recycle/app/corpus_process.h"
#include "recycle/app/dry_run.h"
#include "recycle/app/executor_setup.h"
#include "recycle/app/fault_ledger.h"
#include "recycle/app/job_security.h"
#include "recycle/app/job_store.h"
#include "recycle/app/launcher_link.h"
#include "recycle/app/open_files.h"
#include "recycle/app/report_error.h"
#include "recycle/base/check.h"
#include "recycle/base/exit_code.h"
#include "recycle/base/file.h"
#include "recycle/base/utf8.h"
#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/data/corpus.h"
#include "recycle/data/dataset.h"
#include "recycle/data/token_file.h"

namespace recycle {
namespace {

constexpr std::string_view kCoordinator = "coordinator";

// "agent 0" logs to logs/agent-0.log.
std::string LogName(std::string process) {
  std::replace(process.begin(), process.end(), ' ', '-');
  return process;
}

bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Where prepared corpora are kept between runs.
StatusOr<std::string> CacheFolder() {
  for (const auto& [name, below] :
       {std::pair("XDG_CACHE_HOME", "/recycle"), std::pair("HOME", "/.cache/recycle")}) {
    const char* const folder = getenv(name);
    if (folder == nullptr || *folder == '\0') continue;
    if (IsUtf8(folder)) return std::string(folder) + below;
    return absl::InvalidArgumentError(
        fmt::format("{} is '{}', but it must be UTF-8; set another one", name, folder));
  }
  return absl::InvalidArgumentError(
      "no place for the prepared corpus: neither XDG_CACHE_HOME nor HOME is set; set one of them");
}

StatusOr<JobConfig> ResolveConfig(const TrainArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.plan_file.empty()) {
    std::error_code no_folder;  // the working folder is gone: then reading the file says so
    const std::filesystem::path plan = std::filesystem::absolute(arguments.plan_file, no_folder);
    overrides.push_back("schedule.plan=" + (no_folder ? arguments.plan_file : plan.string()));
  }
  // Before they are looked at: a fault of iteration 20 is no error of a job cut down to 8.
  if (arguments.no_inject) overrides.emplace_back("inject=[]");
  RC_ASSIGN_OR_RETURN(JobConfig config, LoadJobConfig(arguments.config_path, overrides));
  RC_RETURN_IF_ERROR(AddInjectOptions(arguments.inject, config));
  return config;
}

StatusOr<PreparedCorpus> PrepareJobCorpus(const JobConfig& config, Terminal& terminal) {
  CorpusOptions options;
  options.text = config.data.text;
  options.tokenizer = config.data.tokenizer;
  options.vocabulary = config.data.vocabulary;
  options.seed = config.train.seed;
  RC_ASSIGN_OR_RETURN(options.cache_dir, CacheFolder());
  const StatusOr<PreparedCorpus> corpus =
      PrepareCorpusInChild(options, [&](const std::string& message) { terminal.Print(message); });
  // Whatever keeps a corpus from being read or cached is for the caller to mend.
  if (!corpus.ok() && !absl::IsInternal(corpus.status())) {
    return absl::InvalidArgumentError(corpus.status().message());
  }
  RC_RETURN_IF_ERROR(corpus.status());
  // Now rather than in every worker.
  RC_ASSIGN_OR_RETURN(TokenFile tokens,
                      TokenFile::Open(corpus->token_file, config.data.vocabulary));
  RC_RETURN_IF_ERROR(
      Dataset::Create(std::move(tokens), config.model.sequence, config.data.validation).status());
  return corpus;
}

// What the other processes read.
Status WriteJobFiles(const JobConfig& config, const PreparedCorpus& corpus,
                     const RunFolder& folder) {
  RC_RETURN_IF_ERROR(WriteCorpusFile(corpus, folder));
  return WriteFileAtomically(folder.Config(), ToYaml(config));
}

Status FillFolder(const JobConfig& config, const RunFolder& folder, Terminal& terminal) {
  RC_ASSIGN_OR_RETURN(const PreparedCorpus corpus, PrepareJobCorpus(config, terminal));
  return WriteJobFiles(config, corpus, folder);
}

// Goes on with the run of `arguments.run_dir` from its newest checkpoint.
StatusOr<int> ResumeRun(const TrainArguments& arguments, const JobConfig& config) {
  RC_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Reopen(arguments.run_dir));
  RC_ASSIGN_OR_RETURN(const ResumeChoice choice,
                      CheckpointFolder(folder.Checkpoints()).ChooseForResume());
  Terminal terminal(isatty(STDOUT_FILENO) != 0, SystemClock());
  for (const std::string& note : choice.notes) terminal.Print("warning: " + note);
  const Manifest& manifest = choice.checkpoint.manifest;
  RC_ASSIGN_OR_RETURN(const PreparedCorpus corpus, PrepareJobCorpus(config, terminal));
  RC_RETURN_IF_ERROR(CheckIdentity(manifest.identity, CheckpointIdentity(config, corpus)));
  RC_RETURN_IF_ERROR(CheckIterations(manifest.iteration, config));
  RC_RETURN_IF_ERROR(ForgetOldFaults(config, folder));
  RC_RETURN_IF_ERROR(folder.KeepTrace());
  RC_RETURN_IF_ERROR(WriteJobFiles(config, corpus, folder));
  terminal.Print(fmt::format("going on from the checkpoint of iteration {}", manifest.iteration));
  return Launcher(config, folder, manifest.iteration, SystemClock(), terminal).Run();
}

StatusOr<int> Train(const TrainArguments& arguments) {
  RC_ASSIGN_OR_RETURN(const JobConfig config, ResolveConfig(arguments));
  RC_ASSIGN_OR_RETURN(const Plan plan, FirstPlan(config));
  if (arguments.dry_run) {
    RC_ASSIGN_OR_RETURN(const std::string report, DryRunReport(config, plan, arguments.json));
    std::cout << report << std::flush;
    return 0;
  }
  RC_RETURN_IF_ERROR(CheckSecurity(config));
  RC_RETURN_IF_ERROR(RaiseOpenFileLimit(config.parallel.data * config.parallel.pipeline));
  if (arguments.resume) return ResumeRun(arguments, config);
  RC_ASSIGN_OR_RETURN(RunFolder folder,
                      RunFolder::Create(arguments.run_dir, arguments.config_path, SystemClock()));
  Terminal terminal(isatty(STDOUT_FILENO) != 0, SystemClock());
  if (const Status filled = FillFolder(config, folder, terminal); !filled.ok()) {
    folder.Discard();
    return filled;
  }
  return Launcher(config, folder, /*resume_from=*/0, SystemClock(), terminal).Run();
}

}  // namespace

Launcher::Launcher(const JobConfig& config, const RunFolder& folder, int resume_from,
                   const Clock& clock, Terminal& terminal)
    : config_(config),
      folder_(folder),
      resume_from_(resume_from),
      launch_(fmt::format("{}-{:.6f}", getpid(), clock.UnixSeconds())),
      clock_(clock),
      terminal_(terminal),
      progress_(config, folder.root()) {}

Launcher::~Launcher() {
  KillAll();
  if (signals_ >= 0) close(signals_);
}

StatusOr<int> Launcher::Run() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&watched, number);
  // A blocked signal would arrive even where nohup has it ignored.
  if (!IsIgnored(SIGHUP)) sigaddset(&watched, SIGHUP);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signals_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  RC_CHECK(signals_ >= 0) << "signalfd: errno " << errno;
  terminal_.Print(progress_.Headline());
  RC_RETURN_IF_ERROR(ProbeStore(config_, folder_));
  RC_RETURN_IF_ERROR(FillCoordinators());
  RC_RETURN_IF_ERROR(Loop());
  KillAll();
  return ExitCodeNow();
}

Status Launcher::StartCoordinator() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return absl::ResourceExhaustedError("no socket for the coordinator");
  }
  ChildOptions child;
  child.argv = {ProgramFolder() + "/recycle",
                "coordinator",
                "--run-dir",
                folder_.root(),
                "--report-fd",
                std::to_string(pair[1]),
                "--resume-from",
                std::to_string(resume_from_),
                "--launch",
                launch_};
  child.inherited = {pair[1]};
  child.output_file = folder_.Log(kCoordinator);
  child.own_process_group = true;
  const StatusOr<pid_t> pid = StartChild(child);
  close(pair[1]);
  if (!pid.ok()) {
    close(pair[0]);
    return pid.status();
  }
  coordinators_.push_back(
      {.pid = *pid, .socket = pair[0], .lines = {}, .last_heard = clock_.Now()});
  if (stop_signal_) WriteAll(pair[0], kStopCommand);
  return OkStatus();
}

Status Launcher::StartAgents() {
  if (!config_.launch.start_agents) {
    terminal_.Print(
        fmt::format("agents 0 to {} are to be started on their hosts: recycle agent {} N",
                    config_.launch.agents - 1, folder_.root()));
    return OkStatus();
  }
  for (int agent = 0; agent < config_.launch.agents; ++agent) {
    ChildOptions child;
    child.argv = {ProgramFolder() + "/recycle", "agent", folder_.root(), std::to_string(agent)};
    child.output_file = folder_.Log(fmt::format("agent-{}", agent));
    child.own_process_group = true;
    RC_ASSIGN_OR_RETURN(const pid_t pid, StartChild(child));
    children_.push_back({fmt::format("agent {}", agent), pid});
  }
  return OkStatus();
}

Status Launcher::Loop() {
  Status status;
  while (!coordinator_status_ && !killed_ && status.ok() && start_failure_.ok()) {
    std::vector<pollfd> ready = {{signals_, POLLIN, 0}};
    for (const Coordinator& coordinator : coordinators_) {
      ready.push_back({coordinator.socket, POLLIN, 0});  // poll skips a negative one
    }
    int timeout_ms = -1;
    if (const auto deadline = NextDeadline()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock_.Now()).count();
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    }
    if (poll(ready.data(), ready.size(), timeout_ms) < 0 && errno != EINTR) {
      return absl::InternalError(fmt::format("poll: errno {}", errno));
    }
    status = ReadCoordinators(ready);
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      OnSignal(static_cast<int>(info.ssi_signo));
    }
    if (status.ok()) status = WatchCoordinator();
    if (grace_over_ && clock_.Now() >= *grace_over_) {
      terminal_.Print("the grace period is over: ending at once");
      killed_ = true;
    }
  }
  return status.ok() ? start_failure_ : status;
}

// `ready` holds the coordinators' sockets from its second entry on.
Status Launcher::ReadCoordinators(const std::vector<pollfd>& ready) {
  Status status;
  auto entry = ready.begin() + 1;
  for (Coordinator& coordinator : coordinators_) {
    if ((entry++)->revents == 0) continue;
    char buffer[65536];
    const ssize_t count = read(coordinator.socket, buffer, sizeof(buffer));
    if (count > 0) {
      coordinator.last_heard = clock_.Now();
      coordinator.was_heard = true;
      coordinator.lines.Feed({buffer, static_cast<std::size_t>(count)},
                             [&](const std::string& line) {
                               if (status.ok()) status = OnCoordinatorLine(coordinator, line);
                             });
    } else if (count == 0 || errno != EINTR) {
      close(coordinator.socket);
      coordinator.socket = -1;  // its end comes by SIGCHLD
    }
  }
  return status;
}

Status Launcher::WatchCoordinator() {
  RC_RETURN_IF_ERROR(FillCoordinators());
  if (!IsWatched()) return OkStatus();
  Coordinator& newest = coordinators_.back();
  if (clock_.Now() < newest.last_heard + Patience(newest)) return OkStatus();
  terminal_.Print(
      fmt::format("the coordinator (pid {}) gives no sign of life and is killed", newest.pid));
  newest.last_heard = clock_.Now();
  kill(-newest.pid, SIGKILL);  // its end comes by SIGCHLD
  return OkStatus();
}

Duration Launcher::Patience(const Coordinator& coordinator) const {
  const Duration patience = std::chrono::milliseconds(config_.resilience.failure_timeout_ms);
  return coordinator.was_heard ? patience : std::max<Duration>(patience, kStartPatience);
}

// With several, the store's lease tells. One that waits for an etcd has nothing to say.
bool Launcher::IsWatched() const {
  if (config_.launch.coordinators > 1 || !agents_started_ || job_over_) return false;
  if (coordinators_.empty()) return false;
  return coordinators_.back().leads || config_.resilience.store == "embedded";
}

Status Launcher::FillCoordinators() {
  while (!coordinator_status_ && std::ssize(coordinators_) < config_.launch.coordinators) {
    RC_RETURN_IF_ERROR(StartCoordinator());
  }
  return OkStatus();
}

std::optional<TimePoint> Launcher::NextDeadline() const {
  std::optional<TimePoint> deadline = grace_over_;
  if (!IsWatched()) return deadline;
  const TimePoint silent = coordinators_.back().last_heard + Patience(coordinators_.back());
  return deadline ? std::min(*deadline, silent) : silent;
}

Status Launcher::OnCoordinatorLine(Coordinator& coordinator, const std::string& line) {
  const Json message = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  RC_CHECK(!message.is_discarded()) << "the coordinator said '" << line << "'";
  const std::string kind = message.at("kind");
  const Json& body = message.at("line");
  if (kind == "address") {
    coordinator.leads = true;
    if (agents_started_) return OkStatus();
    agents_started_ = true;
    return StartAgents();
  }
  if (kind == "event") {
    for (const std::string& text : progress_.OnEvent(body)) terminal_.Print(text);
  } else if (kind == "metrics") {
    terminal_.ShowLive(progress_.LiveLine(body));
    const int iteration = body.at("iteration");
    const bool wanted = iteration % config_.log.every == 0 || iteration == config_.train.iterations;
    if (!terminal_.is_tty() && wanted) terminal_.Print(progress_.LogLine(body));
  } else if (kind == "warning") {
    terminal_.Print("warning: " + body.at("text").get<std::string>());
  } else if (kind == "failed") {
    start_failure_ = Status(static_cast<StatusCode>(body.at("code").get<int>()),
                            body.at("message").get<std::string>());
  } else if (kind == "summary") {
    job_over_ = true;
    for (const std::string& text : progress_.Closing(body)) terminal_.Print(text);
  }
  return OkStatus();
}

void Launcher::OnSignal(int number) {
  if (number == SIGCHLD) {
    OnChildrenEnded();
    return;
  }
  if (stop_signal_) {
    terminal_.Print("second signal: ending at once");
    killed_ = true;
    return;
  }
  stop_signal_ = number;
  const std::chrono::duration<double> grace(config_.launch.grace_s);
  grace_over_ = clock_.Now() + std::chrono::duration_cast<Duration>(grace);
  terminal_.Print(fmt::format(
      "SIG{}: finishing the iteration, for at most {:g} s; a second signal ends at once",
      sigabbrev_np(number), config_.launch.grace_s));
  for (const Coordinator& coordinator : coordinators_) {
    if (coordinator.socket >= 0) WriteAll(coordinator.socket, kStopCommand);
  }
}

void Launcher::OnChildrenEnded() {
  int wait_status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    const auto coordinator =
        std::find_if(coordinators_.begin(), coordinators_.end(),
                     [pid](const Coordinator& known) { return known.pid == pid; });
    if (coordinator != coordinators_.end()) {
      if (coordinator->socket >= 0) close(coordinator->socket);
      const Coordinator ended = std::move(*coordinator);
      coordinators_.erase(coordinator);
      OnCoordinatorEnded(ended, wait_status);
      continue;
    }
    const auto child = std::find_if(children_.begin(), children_.end(),
                                    [pid](const Child& known) { return known.pid == pid; });
    if (child == children_.end()) continue;  // an orphan of an agent
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == static_cast<int>(ExitCode::kUsage)) {
      // It never got as far as to have workers: nobody else would notice.
      start_failure_ = absl::NotFoundError(fmt::format(
          "{} cannot start; its log is {}", child->name, folder_.Log(LogName(child->name))));
    } else if (!coordinator_status_ && wait_status != 0) {  // with 0 the job is over
      terminal_.Print(fmt::format("{} (pid {}) ended: {}; its workers die with it", child->name,
                                  pid, DescribeWaitStatus(wait_status)));
    }
    children_.erase(child);
  }
}

void Launcher::OnCoordinatorEnded(const Coordinator& coordinator, int wait_status) {
  const std::string how = DescribeWaitStatus(wait_status);
  const bool left =
      WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == static_cast<int>(ExitCode::kFenced);
  if (left) {
    terminal_.Print(fmt::format(
        "the coordinator with pid {} found that another one leads, and left", coordinator.pid));
    return;
  }
  // Its own decision, or so far into the end of the job that there is nothing to take over; not
  // that of one that waits for its turn.
  if ((!WIFSIGNALED(wait_status) || job_over_) && (coordinator.leads || !agents_started_)) {
    coordinator_status_ = wait_status;
    return;
  }
  const TimePoint now = clock_.Now();
  std::erase_if(deaths_, [now](TimePoint death) { return death + kDeathWindow < now; });
  deaths_.push_back(now);
  if (static_cast<int>(deaths_.size()) > kDeathsAllowed) {
    terminal_.Print(fmt::format("the coordinator died {} times within {} s: giving up",
                                deaths_.size(), kDeathWindow.count()));
    coordinator_status_ = wait_status;
    return;
  }
  terminal_.Print(
      coordinator.leads
          ? fmt::format("the coordinator died ({}): another one takes over, training goes on", how)
          : fmt::format("a coordinator that waited for its turn ended ({})", how));
}

void Launcher::KillAll() {
  // Each child leads a process group: an agent's holds its spawner and executors too.
  for (const Child& child : children_) kill(-child.pid, SIGKILL);
  for (const Coordinator& coordinator : coordinators_) kill(-coordinator.pid, SIGKILL);
  const bool any = !children_.empty() || !coordinators_.empty();
  while (any && (wait(nullptr) > 0 || errno == EINTR)) {
  }
  children_.clear();
  for (Coordinator& coordinator : coordinators_) {
    if (coordinator.socket >= 0) close(coordinator.socket);
  }
  coordinators_.clear();
  unlink(folder_.Address().c_str());  // agents elsewhere see that the job is over
}

int Launcher::ExitCodeNow() const {
  if (stop_signal_ && (killed_ || coordinator_status_ == 0)) return 128 + *stop_signal_;
  if (coordinator_status_ && WIFEXITED(*coordinator_status_)) {
    return WEXITSTATUS(*coordinator_status_);
  }
  terminal_.Print(fmt::format("the coordinator died ({}); its log is {}",
                              DescribeWaitStatus(coordinator_status_.value_or(0)),
                              folder_.Log(kCoordinator)));
  return static_cast<int>(ExitCode::kUnreachable);
}

int RunTrain(const TrainArguments& arguments) {
  const StatusOr<int> code = Train(arguments);
  return code.ok() ? *code : ReportError(code.status());
}

}  // namespace recycle
