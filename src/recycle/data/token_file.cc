#include "recycle/data/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/data/file_io.h"

namespace recycle {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t token_bytes;
  std::uint64_t num_tokens;
  std::uint32_t max_token;
  std::uint32_t zero;
};
static_assert(sizeof(Header) == 32);

constexpr char kMagic[8] = {'R', 'C', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr std::uint32_t kVersion = 1;

Status CheckHeader(const std::string& path, const Header& header, std::size_t file_bytes) {
  const auto broken = [&](const std::string& what) {
    return absl::DataLossError(fmt::format(
        "{} is no whole token file: {}; delete it to have it prepared again", path, what));
  };
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return broken("its magic is wrong");
  if (header.version != kVersion) {
    return broken(
        fmt::format("its version is {}, this program reads {}", header.version, kVersion));
  }
  if (header.token_bytes != 2 && header.token_bytes != 4) {
    return broken(fmt::format("it says {} bytes a token, not 2 or 4", header.token_bytes));
  }
  const std::uint64_t body = file_bytes - sizeof(Header);
  if (body % header.token_bytes != 0 || body / header.token_bytes != header.num_tokens) {
    return broken(
        fmt::format("it should hold {} tokens and has {} bytes of them", header.num_tokens, body));
  }
  return OkStatus();
}

template <typename T>
std::int64_t MaxToken(const std::byte* tokens, std::int64_t count) {
  const T* begin = reinterpret_cast<const T*>(tokens);
  return count == 0 ? 0 : std::int64_t{*std::max_element(begin, begin + count)};
}

template <typename T>
void CopyAs(const std::byte* tokens, std::int64_t begin, std::span<std::int64_t> out) {
  const T* source = reinterpret_cast<const T*>(tokens) + begin;
  std::copy(source, source + out.size(), out.begin());
}

template <typename T>
void AppendAs(const std::vector<std::int32_t>& tokens, std::string& bytes) {
  for (const std::int32_t token : tokens) {
    const T narrow = static_cast<T>(token);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
}

}  // namespace

StatusOr<TokenFile> TokenFile::Open(const std::string& path, int vocabulary) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("opening", path);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    const Status failed = ErrnoStatus("reading the size of", path);
    close(fd);
    return failed;
  }
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < sizeof(Header)) {
    close(fd);
    return absl::DataLossError(fmt::format(
        "{} is no token file: it has {} bytes, fewer than a header's {}; delete it to have it "
        "prepared again",
        path, bytes, sizeof(Header)));
  }
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  const Status failed = map == MAP_FAILED ? ErrnoStatus("mapping", path) : OkStatus();
  close(fd);
  RC_RETURN_IF_ERROR(failed);

  Header header;
  std::memcpy(&header, map, sizeof header);
  TokenFile file(static_cast<const std::byte*>(map), bytes,
                 static_cast<std::int64_t>(header.num_tokens), header.token_bytes == 4);
  RC_RETURN_IF_ERROR(CheckHeader(path, header, bytes));
  const std::byte* tokens = file.map_ + sizeof(Header);
  const std::int64_t max_token = file.wide_ ? MaxToken<std::uint32_t>(tokens, file.num_tokens_)
                                            : MaxToken<std::uint16_t>(tokens, file.num_tokens_);
  if (max_token >= vocabulary) {
    return absl::InvalidArgumentError(
        fmt::format("data.vocabulary is {}: {} has token {}, and every token must be below "
                    "data.vocabulary; the nearest valid choice is {}",
                    vocabulary, path, max_token, max_token + 1));
  }
  return file;
}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      map_bytes_(other.map_bytes_),
      num_tokens_(other.num_tokens_),
      wide_(other.wide_) {}

TokenFile::~TokenFile() {
  if (map_ != nullptr) munmap(const_cast<std::byte*>(map_), map_bytes_);
}

std::int64_t TokenFile::token(std::int64_t position) const {
  std::int64_t token = 0;
  Copy(position, {&token, 1});
  return token;
}

void TokenFile::Copy(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  RC_CHECK(begin >= 0 && begin <= num_tokens_ - count)
      << "tokens [" << begin << ", " << begin + count << ") of " << num_tokens_;
  if (wide_) {
    CopyAs<std::uint32_t>(map_ + sizeof(Header), begin, out);
  } else {
    CopyAs<std::uint16_t>(map_ + sizeof(Header), begin, out);
  }
}

Status WriteTokenFile(const std::string& path, const std::vector<std::int32_t>& tokens) {
  std::int32_t max_token = 0;
  for (const std::int32_t token : tokens) {
    RC_CHECK(token >= 0) << "token " << token;
    max_token = std::max(max_token, token);
  }
  const bool wide = max_token > std::numeric_limits<std::uint16_t>::max();
  Header header{{}, kVersion, wide ? 4U : 2U, tokens.size(), static_cast<std::uint32_t>(max_token),
                0};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.reserve(sizeof header + tokens.size() * header.token_bytes);
  if (wide) {
    AppendAs<std::uint32_t>(tokens, bytes);
  } else {
    AppendAs<std::uint16_t>(tokens, bytes);
  }
  return WriteFile(path, bytes);
}

}  // namespace recycle
