#include "recycle/app/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace recycle {
namespace {

constexpr std::size_t kMaxTokenBytes = 1024;
// 32 bytes, written as ...
constexpr std::size_t kLeastHex = 64;
constexpr std::size_t kLeastBase64 = 43;  // without the padding

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Also of the alphabet for URLs.
bool IsBase64Digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '/' || c == '-' || c == '_';
}

Status CheckTokenFile(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError("is no regular file, but a token must be in one");
  }
  if (file.st_uid != geteuid()) {
    return absl::InvalidArgumentError(
        fmt::format("belongs to user {}, but it must be the file of user {}, who runs the job; "
                    "make one with {}",
                    file.st_uid, geteuid(), TokenRecipe(path)));
  }
  const mode_t mode = file.st_mode & 07777;
  if (mode == 0600 || mode == 0400) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "has mode {:04o}, but nobody except its owner may read it; chmod 600 {}", mode, path));
}

StatusOr<std::string> ReadTokenText(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0) {
    const Status error = absl::InvalidArgumentError(fmt::format(
        "cannot be read ({}); make one with {}", std::strerror(errno), TokenRecipe(path)));
    if (file >= 0) close(file);
    return error;
  }
  std::string text(kMaxTokenBytes + 1, '\0');
  const Status status = CheckTokenFile(info, path);
  const ssize_t count = status.ok() ? read(file, text.data(), text.size()) : 0;
  close(file);
  RC_RETURN_IF_ERROR(status);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

}  // namespace

std::string TokenRecipe(const std::string& path) {
  return fmt::format("(umask 077; head -c 32 /dev/urandom | base64 > {})", path);
}

StatusOr<std::string> ReadTokenFile(const std::string& path) {
  RC_ASSIGN_OR_RETURN(std::string token, ReadTokenText(path));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const std::string_view digits(token.data(), token.find_last_not_of('=') + 1);
  const bool is_hex = std::all_of(token.begin(), token.end(), IsHexDigit);
  const bool is_base64 = std::all_of(digits.begin(), digits.end(), IsBase64Digit);
  if (is_base64 && digits.size() >= (is_hex ? kLeastHex : kLeastBase64) &&
      token.size() <= kMaxTokenBytes) {
    return token;
  }
  return absl::InvalidArgumentError(fmt::format(
      "holds no token, which is one line of at least {} characters of base64 or {} hexadecimal "
      "digits (32 random bytes), at most {}; make one with {}",
      kLeastBase64, kLeastHex, kMaxTokenBytes, TokenRecipe(path)));
}

}  // namespace recycle
