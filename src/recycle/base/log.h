// The process's own log: text lines to standard error or to a file, through spdlog.
//
//   InitLog("executor 1:0", run_dir / "logs/executor-1-0.log");
//   LogInfo("generation {}: {} live workers", generation.value(), live);
//
// Thread-safe after InitLog. A full disk loses lines and nothing else.
#ifndef RECYCLE_BASE_LOG_H_
#define RECYCLE_BASE_LOG_H_

#include <fmt/format.h>

#include <string>
#include <utility>

namespace recycle {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Names the process in every line and sends the lines to `file` (appended, flushed a line), or to
// standard error when `file` is empty. Before the first call lines go to standard error.
void InitLog(const std::string& process, const std::string& file);

void LogLine(LogLevel level, const std::string& message);

template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace recycle

#endif  // RECYCLE_BASE_LOG_H_
