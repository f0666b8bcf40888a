#include "recycle/app/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "recycle/base/check.h"
#include "recycle/base/file.h"

namespace recycle {
namespace {

// argv or envp as execve wants it; valid as long as `strings` lives.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment with `changes` on top, as "NAME=value".
std::vector<std::string> Environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  result.reserve(changes.size());
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    bool changed = false;
    for (const auto& change : changes) changed = changed || change.first == name;
    if (!changed) result.push_back(text);
  }
  return result;
}

// The child's part up to exec; returns only if something failed, with errno set.
void BecomeProgram(const ChildOptions& options, pid_t parent, char* const* argv,
                   char* const* envp) {
  DieWithParent(parent);
  ResetSignals();
  if (options.own_process_group) setpgid(0, 0);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) {
    dup2(null, STDIN_FILENO);
    if (null != STDIN_FILENO) close(null);
  }
  if (!options.output_file.empty()) RedirectOutput(options.output_file);
  for (const int descriptor : options.inherited) fcntl(descriptor, F_SETFD, 0);
  execve(argv[0], argv, envp);
}

}  // namespace

StatusOr<pid_t> StartChild(const ChildOptions& options) {
  RC_CHECK(!options.argv.empty());
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> environment = Environment(options.environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  int failure[2];  // closes by exec; carries errno if exec fails
  if (pipe2(failure, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("no pipe for '{}': {}", options.argv[0], std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    BecomeProgram(options, parent, argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure[1], &error, sizeof(error));
    _exit(127);
  }
  const int fork_error = errno;
  close(failure[1]);
  int error = 0;
  const bool failed = pid > 0 && read(failure[0], &error, sizeof(error)) == sizeof(error);
  close(failure[0]);
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("no process for '{}': {}", options.argv[0], std::strerror(fork_error)));
  }
  if (failed) {
    waitpid(pid, nullptr, 0);
    return absl::NotFoundError(fmt::format("program '{}' cannot be started ({}); build it first",
                                           options.argv[0], std::strerror(error)));
  }
  return pid;
}

void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the kernel knew of our wish
}

void ResetSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE, SIGXFSZ}) {
    std::signal(number, SIG_DFL);
  }
}

bool RedirectOutput(const std::string& file) {
  const int output = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) return false;
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  return true;
}

pid_t ParentOf(pid_t pid) {
  // "<pid> (<name>) <state> <parent> ...": the name may hold anything, so from its last bracket on.
  const StatusOr<std::string> stat = ReadWholeFile(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok()) return 0;
  const std::size_t name_end = stat->rfind(')');
  int parent = 0;
  if (name_end == std::string::npos ||
      std::sscanf(stat->c_str() + name_end, ") %*c %d", &parent) != 1) {
    return 0;
  }
  return parent;
}

std::string ProgramFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  RC_CHECK(!error) << "/proc/self/exe: " << error.message();
  return program.parent_path().string();
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exit code {}", WEXITSTATUS(wait_status));
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return fmt::format("signal {} ({})", number, strsignal(number));
  }
  return fmt::format("wait status {}", wait_status);
}

}  // namespace recycle
