#include "recycle/checkpoint/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace recycle {

DurableFile::DurableFile(std::string path)
    : path_(std::move(path)),
      file_(open(temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (file_ < 0) error_ = errno;
}

DurableFile::~DurableFile() {
  if (file_ >= 0) close(file_);
  if (!committed_) unlink(temporary().c_str());
}

void DurableFile::Append(std::span<const std::byte> bytes) {
  while (error_ == 0 && !bytes.empty()) {
    const ssize_t written = write(file_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
}

Status DurableFile::Commit(const std::function<void()>& before_rename) {
  if (error_ == 0 && fsync(file_) != 0) error_ = errno;
  if (file_ >= 0 && close(std::exchange(file_, -1)) != 0 && error_ == 0) error_ = errno;
  if (error_ != 0) return WriteError(path_, error_);
  before_rename();
  if (rename(temporary().c_str(), path_.c_str()) != 0) return WriteError(path_, errno);
  committed_ = true;
  return SyncFolder(std::filesystem::path(path_).parent_path().string());
}

Status WriteFileDurably(const std::string& path, std::string_view text) {
  DurableFile file(path);
  file.Append(std::as_bytes(std::span(text)));
  return file.Commit();
}

Status SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return WriteError(path, errno);
  const int error = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  return error == 0 ? OkStatus() : WriteError(path, error);
}

Status WriteError(const std::string& path, int error) {
  const std::string message = fmt::format("'{}' cannot be written: {}", path, std::strerror(error));
  const bool full = error == ENOSPC || error == EFBIG || error == EDQUOT;
  return full ? absl::ResourceExhaustedError(message) : absl::PermissionDeniedError(message);
}

}  // namespace recycle
