#include "recycle/executor/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "recycle/base/log.h"

namespace recycle {

LineFile::LineFile(std::string path, std::string what)
    : path_(std::move(path)), what_(std::move(what)) {
  if (path_.empty()) return;
  on_ = true;
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) GiveUp(errno);
}

LineFile::~LineFile() {
  if (file_ >= 0) close(file_);
}

void LineFile::Append(std::string line) {
  if (!on_) return;
  line += '\n';
  const ssize_t written = write(file_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) GiveUp(written < 0 ? errno : ENOSPC);
}

void LineFile::GiveUp(int error) {
  if (on_.exchange(false)) {
    LogWarning("no {} from here on: {}: {}", what_, path_, std::strerror(error));
  }
}

}  // namespace recycle
