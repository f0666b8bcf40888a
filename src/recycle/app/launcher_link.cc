#include "recycle/app/launcher_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "recycle/base/check.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

constexpr std::size_t kOutboxBytes = std::size_t{4} << 20;

}  // namespace

LauncherLink::LauncherLink(int descriptor) : descriptor_(descriptor) {
  if (descriptor_ < 0) return;
  const int flags = fcntl(descriptor_, F_GETFL);
  RC_CHECK(flags >= 0) << "descriptor " << descriptor_ << " is not open";
  fcntl(descriptor_, F_SETFL, flags | O_NONBLOCK);
  fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
}

LauncherLink::~LauncherLink() {
  if (descriptor_ < 0) return;
  Flush();
  close(descriptor_);
}

void LauncherLink::Send(std::string_view kind, const Json& line) {
  if (descriptor_ < 0) return;
  Json message;
  message["kind"] = kind;
  message["line"] = line;
  const std::string text = message.dump() + "\n";
  if (outbox_.size() + text.size() > kOutboxBytes) {
    if (++dropped_ == 1) LogWarning("the launcher does not listen; lines for it are dropped");
    return;
  }
  outbox_ += text;
  Flush();
}

void LauncherLink::Flush() {
  while (descriptor_ >= 0 && !outbox_.empty()) {
    const ssize_t sent = send(descriptor_, outbox_.data(), outbox_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    outbox_.erase(0, static_cast<std::size_t>(sent));
  }
}

LauncherLink::Received LauncherLink::Receive() {
  char buffer[256];
  const ssize_t count = recv(descriptor_, buffer, sizeof(buffer), 0);
  if (count > 0) return Received::kStop;  // there is no other command
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothing;
  close(descriptor_);
  descriptor_ = -1;
  return Received::kClosed;
}

}  // namespace recycle
