#include "recycle/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace recycle {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger>& Logger() {
  static std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>(
      "recycle", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return logger;
}

}  // namespace

void InitLog(const std::string& process, const std::string& file) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex&) {  // no file (a full disk): the lines still go somewhere
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    }
  }
  Logger() = std::make_shared<spdlog::logger>(process, std::move(sink));
  Logger()->set_pattern("%Y-%m-%d %H:%M:%S.%f [%n] %l: %v");
  Logger()->flush_on(spdlog::level::info);
  // A line that cannot be written is lost: nothing that trains may depend on a log.
  Logger()->set_error_handler([](const std::string&) {});
}

void LogLine(LogLevel level, const std::string& message) {
  Logger()->log(ToSpdlog(level), message);
}

}  // namespace recycle
