// SHA-256 over bytes, through OpenSSL.
#ifndef RECYCLE_BASE_SHA256_H_
#define RECYCLE_BASE_SHA256_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace recycle {

// Not thread-safe. Usage: Update any number of times, then HexDigest once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  // 64 lower-case hexadecimal digits.
  std::string HexDigest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The digest of `bytes` alone, in hexadecimal. Thread-safe.
std::string Sha256Of(std::span<const std::byte> bytes);
std::string Sha256Of(std::string_view text);

}  // namespace recycle

#endif  // RECYCLE_BASE_SHA256_H_
