#include "recycle/app/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "recycle/base/utf8.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;

Status CannotWrite(const std::string& path, const std::string& reason) {
  return absl::PermissionDeniedError(fmt::format(
      "run folder '{}' cannot be written ({}); name another one with --run-dir", path, reason));
}

Status NotEmpty(const std::string& path) {
  return absl::AlreadyExistsError(fmt::format(
      "run folder '{}' is not empty and a run needs a new or empty one; name another "
      "one with --run-dir, leave the option out, or go on from its newest checkpoint with "
      "--resume",
      path));
}

// Empty, or left behind by a run that was ended before it began: it had made its folders, and a
// log.
bool HasNothingToLose(const fs::path& root, std::error_code& error) {
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "logs" && name != "plans" && name != "corpus.json") return false;
  }
  return !error;
}

// "runs/20261129-173355-first-light", with "-2" and so on behind it if that is taken.
std::string NewFolderName(const std::string& config_path, const Clock& clock) {
  const auto seconds = static_cast<std::time_t>(clock.UnixSeconds());
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  const std::string name = fmt::format("runs/{}-{}", text, fs::path(config_path).stem().string());
  std::string candidate = name;
  std::error_code unknown;  // then making it says why
  for (int number = 2; fs::exists(candidate, unknown); ++number) {
    candidate = fmt::format("{}-{}", name, number);
  }
  return candidate;
}

}  // namespace

StatusOr<RunFolder> RunFolder::Create(const std::string& path, const std::string& config_path,
                                      const Clock& clock) {
  const std::string wanted = path.empty() ? NewFolderName(config_path, clock) : path;
  std::error_code error;
  const fs::path root = fs::absolute(wanted, error).lexically_normal();
  if (!IsUtf8(root.string())) return CannotWrite(wanted, "its path is not UTF-8");
  const bool made_root = fs::create_directories(root, error);
  if (error) return CannotWrite(wanted, error.message());
  std::string text = root.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  RunFolder folder(std::move(text));
  folder.made_root_ = made_root;
  RC_RETURN_IF_ERROR(folder.Claim());
  if (!HasNothingToLose(root, error))
    return error ? CannotWrite(wanted, error.message()) : NotEmpty(wanted);
  for (const char* name : {"logs", "logs/trace", "logs/faults", "plans"}) {
    if (mkdir(folder.File(name).c_str(), 0755) != 0 && errno != EEXIST) {
      return CannotWrite(wanted, std::strerror(errno));
    }
  }
  return folder;
}

StatusOr<RunFolder> RunFolder::Reopen(const std::string& path) {
  RC_ASSIGN_OR_RETURN(RunFolder folder, Open(path));
  RC_RETURN_IF_ERROR(folder.Claim());
  for (const char* name : {"logs", "logs/trace", "logs/faults", "plans"}) {
    if (mkdir(folder.File(name).c_str(), 0755) != 0 && errno != EEXIST) {
      return CannotWrite(path, std::strerror(errno));
    }
  }
  return folder;
}

// The lock goes with the process, however it ends.
Status RunFolder::Claim() const {
  const int descriptor = open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(root_, std::strerror(errno));
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return OkStatus();
  close(descriptor);
  return absl::InvalidArgumentError(fmt::format(
      "run folder '{}' belongs to a job that runs; stop it first, or name another one", root_));
}

StatusOr<RunFolder> RunFolder::Open(const std::string& path) {
  std::error_code error;
  RunFolder folder(fs::absolute(path, error).lexically_normal().string());
  if (!fs::exists(folder.Config(), error)) {
    return absl::NotFoundError(
        fmt::format("'{}' is no run folder: there is no config.yaml in it", path));
  }
  return folder;
}

Status RunFolder::KeepTrace() const {
  std::error_code error;
  if (!fs::exists(Trace(), error)) return OkStatus();
  int number = 1;
  while (fs::exists(File(fmt::format("trace-{}.json", number)), error)) ++number;
  fs::rename(Trace(), File(fmt::format("trace-{}.json", number)), error);
  return error ? CannotWrite(root_, error.message()) : OkStatus();
}

void RunFolder::Discard() const {
  std::error_code error;
  for (const std::string& path : {File("logs"), File("plans"), Config(), Corpus()}) {
    fs::remove_all(path, error);
  }
  if (made_root_) fs::remove(root_, error);  // fails if somebody else put something there
}

std::string RunFolder::Plan(Generation generation) const {
  return File(fmt::format("plans/g{}.json", generation.value()));
}

std::string RunFolder::RestPlan(Generation generation, std::int32_t iteration) const {
  return File(fmt::format("plans/g{}_t{}.json", generation.value(), iteration + 1));
}

std::string RunFolder::Log(std::string_view process) const {
  return File(fmt::format("logs/{}.log", process));
}

std::string RunFolder::ExecutorLog(WorkerId worker) const {
  return Log(fmt::format("executor-{}-{}", worker.pipeline.value(), worker.stage.value()));
}

std::string RunFolder::TracePart(WorkerId worker) const {
  return File(fmt::format("logs/trace/{}-{}.jsonl", worker.pipeline.value(), worker.stage.value()));
}

std::string RunFolder::ProfilePart(WorkerId worker) const {
  return File(
      fmt::format("logs/profile-{}-{}.jsonl", worker.pipeline.value(), worker.stage.value()));
}

std::string RunFolder::FaultStamp(int fault, WorkerId worker) const {
  return File(fmt::format("logs/faults/fault-{}-{}-{}.json", fault, worker.pipeline.value(),
                          worker.stage.value()));
}

StatusOr<std::string> MakeTemporaryFolder(std::string_view command) {
  std::error_code error;
  std::string path =
      (fs::temp_directory_path(error) / fmt::format("recycle-{}-XXXXXX", command)).string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::PermissionDeniedError(
        fmt::format("no temporary folder '{}': {}; name one with --run-dir", path,
                    error ? error.message() : std::strerror(errno)));
  }
  return path;
}

}  // namespace recycle
