// A corpus as token ids in a file, mapped read-only into memory.
//
// Layout, little endian: bytes 0-7 the magic "RCTOKENS"; 8-11 version (uint32, 1); 12-15 bytes per
// token (uint32, 2 or 4); 16-23 number of tokens (uint64); 24-27 the largest token id (uint32);
// 28-31 zero; from byte 32 the tokens.
//
// A TokenFile is immutable: thread-safe. Movable; a moved-from one may only be destroyed.
#ifndef RECYCLE_DATA_TOKEN_FILE_H_
#define RECYCLE_DATA_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

class TokenFile {
 public:
  // Maps `path`. Errors: kNotFound; kDataLoss for a bad header or a size that disagrees with it;
  // kInvalidArgument, naming data.vocabulary, if the file has an id of `vocabulary` or above.
  static StatusOr<TokenFile> Open(const std::string& path, int vocabulary);

  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t token(std::int64_t position) const;  // 0 <= position < num_tokens()
  // Copies the tokens from `begin` on into all of `out`; they must exist.
  void Copy(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  TokenFile(const std::byte* map, std::size_t map_bytes, std::int64_t num_tokens, bool wide)
      : map_(map), map_bytes_(map_bytes), num_tokens_(num_tokens), wide_(wide) {}

  const std::byte* map_;
  std::size_t map_bytes_;
  std::int64_t num_tokens_;
  bool wide_;  // 4 bytes a token, not 2
};

// Writes `tokens` to `path` in the layout above, complete or not at all (temporary file and
// rename); 2 bytes a token where the ids allow it. Errors: the operating system's.
Status WriteTokenFile(const std::string& path, const std::vector<std::int32_t>& tokens);

}  // namespace recycle

#endif  // RECYCLE_DATA_TOKEN_FILE_H_
