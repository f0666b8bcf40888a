#include "recycle/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace recycle {
namespace {

bool IsNeitherFileNorFolder(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return false;
  return !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)),
      in_place_(IsNeitherFileNorFolder(path_)),
      file_(open(temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (file_ < 0) error_ = errno;
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!committed_ && !in_place_) unlink(temporary().c_str());
}

void AtomicFile::Append(std::string_view text) {
  constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) WriteBuffer();
}

void AtomicFile::WriteBuffer() {
  std::string_view rest = buffer_;
  while (error_ == 0 && !rest.empty()) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  buffer_.clear();
}

Status AtomicFile::Commit() {
  WriteBuffer();
  if (file_ >= 0 && close(std::exchange(file_, -1)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && !in_place_ && rename(temporary().c_str(), path_.c_str()) != 0) error_ = errno;
  committed_ = error_ == 0;
  if (committed_) return OkStatus();
  const std::string message =
      fmt::format("'{}' cannot be written: {}", path_, std::strerror(error_));
  const bool full = error_ == ENOSPC || error_ == EFBIG || error_ == EDQUOT;
  return full ? absl::ResourceExhaustedError(message) : absl::PermissionDeniedError(message);
}

Status WriteFileAtomically(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Append(text);
  return file.Commit();
}

StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::error_code unknown;  // then opening it fails as well
  if (std::filesystem::is_directory(path, unknown)) {
    return absl::NotFoundError(fmt::format("'{}' cannot be read: it is a folder", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(fmt::format("'{}' cannot be read: {}", path, std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace recycle
