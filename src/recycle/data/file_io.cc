#include "recycle/data/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace recycle {
namespace {

// A file descriptor that closes itself.
class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { Close(); }
  int fd() const { return fd_; }
  bool Close() {
    if (fd_ < 0) return true;
    const int result = close(fd_);
    fd_ = -1;
    return result == 0;
  }

 private:
  int fd_;
};

}  // namespace

Status ErrnoStatus(std::string_view doing, const std::string& path) {
  return absl::ErrnoToStatus(errno, fmt::format("{} {}", doing, path));
}

StatusOr<std::string> ReadAll(int fd, const std::string& name) {
  std::string content;
  constexpr std::size_t kChunkBytes = 1 << 20;
  while (true) {
    const std::size_t size = content.size();
    content.resize(size + kChunkBytes);
    const ssize_t got = read(fd, content.data() + size, kChunkBytes);
    if (got < 0 && errno != EINTR) return ErrnoStatus("reading", name);
    content.resize(size + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return content;
  }
}

StatusOr<std::string> ReadFile(const std::string& path) {
  const File file(path, O_RDONLY);
  if (file.fd() < 0) return ErrnoStatus("opening", path);
  return ReadAll(file.fd(), path);
}

Status WriteFile(const std::string& path, std::string_view content) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.fd() < 0) return ErrnoStatus("creating", path);
  while (!content.empty()) {
    const ssize_t put = write(file.fd(), content.data(), content.size());
    if (put < 0 && errno != EINTR) return ErrnoStatus("writing", path);
    content.remove_prefix(static_cast<std::size_t>(put > 0 ? put : 0));
  }
  if (!file.Close()) return ErrnoStatus("closing", path);
  return OkStatus();
}

}  // namespace recycle
