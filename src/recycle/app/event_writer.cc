#include "recycle/app/event_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

namespace recycle {

RecordFile::RecordFile(std::string path, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

RecordFile::~RecordFile() {
  if (file_ >= 0) close(file_);
}

void RecordFile::Append(std::string_view line) {
  const std::string name = std::filesystem::path(path_).filename().string();
  const int error = TryAppend(std::string(line) + "\n");
  if (error != 0) {
    ++lost_;
    if (++lost_in_row_ == 1) {
      warn_(
          fmt::format("disk full: {} cannot be written ({}); lines lost until there is room, "
                      "training goes on",
                      name, std::strerror(error)));
    }
    return;
  }
  if (lost_in_row_ > 0) {
    warn_(fmt::format("disk has room again: {} lines of {} lost", lost_in_row_, name));
    lost_in_row_ = 0;
  }
}

int RecordFile::TryAppend(std::string_view text) {
  if (file_ < 0) {
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) return errno;
  }
  const off_t before = lseek(file_, 0, SEEK_END);
  ssize_t written = 0;
  do {
    written = write(file_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return 0;
  const int error = written < 0 ? errno : ENOSPC;
  // Half a line would spoil the next one.
  if (written > 0 && ftruncate(file_, before) != 0) return errno;
  return error;
}

std::vector<Json> ReadLines(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_object()) lines.push_back(std::move(line));
  }
  return lines;
}

Status DropLinesAfter(const std::string& path, int iteration) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return OkStatus();
  std::error_code error;
  std::uintmax_t keep = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); keep += line.size() + 1) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("iteration", iteration + 1) > iteration) break;
  }
  std::filesystem::resize_file(path, keep, error);
  if (!error) return OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("'{}' cannot be cut off: {}", path, error.message()));
}

double RoundedSeconds(double unix_seconds) { return std::round(unix_seconds * 1e6) / 1e6; }

double NumberOf(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json MakeEvent(double unix_seconds, std::string_view name) {
  Json event;
  event["time"] = RoundedSeconds(unix_seconds);
  event["event"] = name;
  return event;
}

}  // namespace recycle
